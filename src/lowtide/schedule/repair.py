"""Lowers the peak of an order by rearranging the steps around it, window by window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lowtide.schedule.ideals import best_window
from lowtide.schedule.numbers import Amounts
from lowtide.schedule.problem import Order

_REACHES = (4, 10, 24)
"""Steps on each side of the peak; a wider window is tried where a narrower one does not help."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard `lower_peak` tries.

    Attributes:
        width: Ideals kept of each size.
        rounds: Windows rearranged at most.
    """

    width: int = 128
    rounds: int = 40


def lower_peak(amounts: Amounts, order: Order, effort: Effort | None = None) -> Order:
    """Rearrange the steps around the highest footprint until no window lowers it.

    Args:
        amounts: The problem at one valuation, or at several relative to limits.
        order: A legal order.
        effort: How hard to try.

    Returns:
        A legal order; its peak is at most that of `order`.

    Cost: rounds x (O(accesses) + windows x steps of a window x width x ready statements).
    """
    effort = effort or Effort()
    boundary = amounts.problem.boundary
    steps = list(order)
    for _ in range(effort.rounds):
        heights = amounts.heights(steps)
        peak = max(heights, default=0)
        if peak <= amounts.low_enough:
            break
        at = heights.index(peak)
        low, high = (0, boundary) if at < boundary else (boundary, len(steps))
        for reach in _REACHES:
            start, stop = max(low, at - reach), min(high, at + reach + 1)
            left, live = _before(amounts, steps, start)
            below = peak - amounts.tolerance
            window = best_window(amounts, steps[start:stop], left, live, below=below, width=effort.width)
            if window is not None:
                steps[start:stop] = window
                break
        else:
            break
    return tuple(steps)


def _before(amounts: Amounts, steps: Sequence[int], start: int) -> tuple[list[int], Any]:
    """How often each buffer will still be touched, and what is live, before step `start`."""
    problem, sizes = amounts.problem, amounts.sizes
    left = list(problem.touchers)
    born = [b for step in range(start) for b in problem.births[steps[step]]]
    dead: list[int] = []
    for step in range(start):
        for buffer in problem.touches[steps[step]]:
            left[buffer] -= 1
            if left[buffer] == 0 and (start >= problem.boundary or buffer not in problem.early_deaths):
                dead.append(buffer)
    if start >= problem.boundary:
        born += problem.at_backward
    return left, sum(sizes[b] for b in (*problem.at_forward, *born)) - sum(sizes[b] for b in dead)
