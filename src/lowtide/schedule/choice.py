"""Chooses the orders of a program that are kept: few enough to compile, enough to be best at every shape.

    candidates          peaks at sampled valuations          kept
    program order       38  66  98 103 ...
    symbolic impact     34  66 100 102 ...  <- best at 1, 4  yes
    topology            38  60  98 103 ...
    repaired at (9)     36  60  96 103 ...  <- best at 2, 3  yes

At run time the peaks of the kept orders, polynomials, are evaluated at the call's sizes and the least one runs. The
program's own order is always among them, so no shape is worse off than without a choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

_CONSIDERED = 20
"""Of how many candidates every combination is tried."""


def keep_orders(candidates: Sequence[Sequence[int]], most: int) -> tuple[int, ...]:
    """Choose at most `most` candidates that, together with the first one, are closest to the best at every sample.

    The largest excess over the best is made as small as it can be, then the sum of all; the fewest candidates that
    reach this, the earlier ones among equals. Tried are candidates that no other one dominates, and of many those with
    the least sum.

    Args:
        candidates: For each candidate its peak in bytes at each sample.
        most: How many may be kept beside the first.

    Returns:
        Indices, without 0: the first candidate, the program's own order, is kept in any case.

    Cost: O(candidates ** 2 + _CONSIDERED ** most) operations on a row of samples.
    """
    peaks = np.array(candidates, dtype=float)
    if not peaks.size:
        return ()
    excess = peaks / np.maximum(1.0, peaks.min(axis=0)) - 1
    rows = [index for index in range(1, len(excess)) if not _is_dominated(excess, index)]
    rows = sorted(sorted(rows, key=lambda index: float(excess[index].sum()))[:_CONSIDERED])

    def left(kept: tuple[int, ...]) -> tuple[float, float]:
        reached = excess[[0, *kept]].min(axis=0)
        return (float(reached.max()), float(reached.sum()))

    choices = (kept for count in range(most + 1) for kept in combinations(rows, count))
    return min(choices, key=left)  # the first among equals, so the fewest


def _is_dominated(excess: NDArray[np.float64], index: int) -> bool:
    """Whether some other candidate is nowhere worse, and better somewhere or earlier."""
    others = np.all(excess <= excess[index], axis=1)
    better = np.any(excess < excess[index], axis=1)
    better[:index] = True
    return bool(np.any((others & better)[np.arange(len(excess)) != index]))
