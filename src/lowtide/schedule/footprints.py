"""Footprints of an order at several valuations at once: what is allocated and freed when does not depend on sizes.

step   allocated  freed after   taken over          sizes at (2,) and (9,)     footprints
1      a                                            a   8   36                   8   36
2      b          a                           x     b   4   81          ->      12  117
3      c          b             c over b            c   4   81                   4   81
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lowtide.schedule.problem import OrderProblem
from lowtide.symbolic.batch import LARGEST

Integers: TypeAlias = NDArray[Any]
"""int64, or Python integers where sums could overflow."""


def integer_columns(columns: Iterable[Sequence[int]]) -> Integers:
    """Put lists of integers side by side, one column each, so that sums along a column cannot overflow."""
    found = list(columns)
    fits = all(sum(map(abs, column)) <= LARGEST // 4 for column in found)
    return np.array(found, dtype=np.int64 if fits else object).T


def footprints(problem: OrderProblem, sizes: Integers, workspace: Integers, order: Sequence[int]) -> Integers:
    """Bytes live during each step, storage being taken over wherever the kernel permits it.

    Args:
        problem: The problem.
        sizes: Bytes of each buffer (row) at each valuation (column).
        workspace: Bytes that each statement (row) needs while it runs, as far as they are known.
        order: A legal order.

    Returns:
        Bytes at each step (row) and valuation (column).

    Guarantee: exact where every takeover that the order permits is made; workspace of unknown size is left out.
    Cost: O(accesses), and O(valuations) additions for each of them.
    """
    left = list(problem.touchers)
    births: list[tuple[int, int]] = [(0, b) for b in problem.at_forward]
    deaths: list[tuple[int, int]] = []
    taken: list[tuple[int, int]] = []
    for step, number in enumerate(order):
        births += [(step, b) for b in problem.births[number]]
        if problem.takeovers[number]:
            taken += [(step, b) for b in problem.taken_over(number, left)]
        for buffer in problem.touches[number]:
            left[buffer] -= 1
            if left[buffer] == 0:
                held = buffer in problem.early_deaths and step < problem.boundary
                deaths.append((problem.boundary if held else step + 1, buffer))
    if len(order) > problem.boundary:
        births += [(problem.boundary, b) for b in problem.at_backward]
    changes = np.zeros((len(order) + 1, sizes.shape[1]), dtype=sizes.dtype)
    _add(changes, births, sizes)
    _add(changes, deaths, -sizes)
    found = np.cumsum(changes[:-1], axis=0) + workspace[list(order)]
    _add(found, taken, -sizes)
    return found


def _add(rows: Integers, events: Sequence[tuple[int, int]], sizes: Integers) -> None:
    if events:
        steps, buffers = zip(*events, strict=True)
        np.add.at(rows, list(steps), sizes[list(buffers)])
