"""Lowers the peak of an order by rearranging the steps around it, window by window."""

from __future__ import annotations

from dataclasses import dataclass

from lowtide.schedule.ideals import best_window
from lowtide.schedule.numbers import SizedProblem
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

    width: int = 48
    rounds: int = 40


def lower_peak(sized: SizedProblem, order: Order, effort: Effort | None = None) -> Order:
    """Rearrange the steps around the highest footprint until no window lowers it.

    Args:
        sized: The problem at one valuation.
        order: A legal order.
        effort: How hard to try.

    Returns:
        A legal order; its peak is at most that of `order`.

    Cost: rounds x (O(accesses) + windows x width x ready statements).
    """
    effort = effort or Effort()
    boundary = sized.problem.boundary
    steps = list(order)
    for _ in range(effort.rounds):
        footprints = sized.footprints(tuple(steps))
        peak = max(footprints, default=0)
        if not footprints:
            break
        at = footprints.index(peak)
        low, high = (0, boundary) if at < boundary else (boundary, len(steps))
        for reach in _REACHES:
            start, stop = max(low, at - reach), min(high, at + reach + 1)
            left, live = _before(sized, steps, start)
            window = best_window(sized, steps[start:stop], left, live, below=peak, width=effort.width)
            if window is not None:
                steps[start:stop] = window.order
                break
        else:
            break
    return tuple(steps)


def _before(sized: SizedProblem, steps: list[int], start: int) -> tuple[list[int], int]:
    """How often each buffer will still be touched, and the bytes live, before step `start`."""
    problem, sizes = sized.problem, sized.sizes
    left = list(problem.touchers)
    live = sum(sizes[b] for b in problem.at_forward)
    late = 0
    for step in range(start):
        if step == problem.boundary:
            live += sum(sizes[b] for b in problem.at_backward) - late
        number = steps[step]
        live += sum(sizes[b] for b in problem.births[number])
        for buffer in problem.touches[number]:
            left[buffer] -= 1
            if left[buffer] == 0:
                if step < problem.boundary and buffer in problem.early_deaths:
                    late += sizes[buffer]
                else:
                    live -= sizes[buffer]
    if start == problem.boundary:
        live += sum(sizes[b] for b in problem.at_backward) - late
    return left, live
