"""Finds orders of a program, each with its peaks at sampled valuations: the candidates for those that are kept.

1. The schedulers that suit any size (`schedulers.py`).
2. At a few samples: the schedulers that look at exact sizes, and the best orders there repaired (`repair.py`).
3. At many samples: the best order known there, repaired.
4. For the samples at which one of the orders that would be kept is the best of them: that order, repaired for all of
   these samples at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lowtide.schedule.choice import keep_orders
from lowtide.schedule.numbers import SampledProblem, SizedProblem
from lowtide.schedule.problem import Order, OrderProblem
from lowtide.schedule.repair import Effort, lower_peak
from lowtide.schedule.samples import sample_valuations
from lowtide.schedule.schedulers import ANY_SIZE, exact_orders

MOST_SAMPLES = 256
"""At how many valuations orders are compared, at most."""
_FAILURES = 2
"""At how many samples one step of one order is tried in vain."""
_GROUPINGS = 2
"""How often groups are made of the samples."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Orders and how good each is at sampled valuations.

    Attributes:
        orders: Legal orders, the program's own first.
        peaks: For each order its peak in bytes at each sample.
    """

    orders: tuple[Order, ...]
    peaks: tuple[tuple[int, ...], ...]


def find_candidates(problem: OrderProblem, most: int) -> Candidates:
    """Order a program in every way that is known, at sampled valuations by exact sizes, and for groups of valuations.

    Args:
        problem: The program's.
        most: How many candidates will be kept beside the program's own: one group of samples is made for each.

    Returns:
        Candidates, the program's own order first.

    Cost: that of each scheduler at a few samples, and of repair at more; how many falls with the number of statements,
        so that what is left is near linear in it.
    """
    count = max(1, len(problem.predecessors))
    valuations = sample_valuations(
        problem.program.scope, _between(8, 200_000 // count, MOST_SAMPLES), machine_parameters(problem)
    )
    pool = _Pool(SampledProblem.of(problem, valuations))
    pool.add(problem.program_order)
    for scheduler in ANY_SIZE.values():
        pool.add(scheduler(problem))
    general = list(pool.peaks)
    for sized in pool.sampled.samples[: _between(2, 1_500 // count, 64)]:
        for order in orders_at(sized, general):
            pool.add(order)
    pool.repair_at_samples(_between(2, 20_000 // count, 128))
    for _ in range(_GROUPINGS):
        if not pool.repair_for_groups(most, Effort(rounds=_between(4, 20_000 // count, 40))):
            break
    return pool.candidates


class _Pool:
    """The candidates while they are found.

    Attributes:
        sampled: The problem at the sampled valuations.
        peaks: For each candidate its peak in bytes at each sample.
    """

    def __init__(self, sampled: SampledProblem) -> None:
        self.sampled = sampled
        self.peaks: dict[Order, tuple[int, ...]] = {}

    @property
    def candidates(self) -> Candidates:
        return Candidates(tuple(self.peaks), tuple(self.peaks.values()))

    def add(self, order: Order) -> None:
        if order not in self.peaks:
            self.peaks[order] = self.sampled.peaks(order)

    def repair_at_samples(self, count: int) -> None:
        """Repair the best order known at each of the first samples there.

        What was repaired at other samples is repaired again, so that one order becomes good at many. Where an order
        has its peak at the same step as at samples at which no repair was found, none is likely, and few are tried.
        """
        failures: Counter[tuple[Order, int]] = Counter()
        total = {order: sum(peaks) for order, peaks in self.peaks.items()}
        for place, sized in enumerate(self.sampled.samples[:count]):
            order = min(self.peaks, key=lambda order: (self.peaks[order][place], total[order]))
            heights = sized.heights(order)
            spot = (order, heights.index(max(heights))) if heights else (order, 0)
            if failures[spot] < _FAILURES:
                repaired = lower_peak(sized, order)
                failures[spot] += repaired == order
                self.add(repaired)
                total[repaired] = sum(self.peaks[repaired])

    def repair_for_groups(self, most: int, effort: Effort) -> bool:
        """Repair each order that would be kept for all the samples at which it would run, at once.

        The limit at each sample is the best peak known there. Says whether there is a new candidate.
        """
        candidates = self.candidates
        kept = (0, *keep_orders(candidates.peaks, most))
        peaks = np.array(candidates.peaks)
        owner = peaks[[*kept]].argmin(axis=0)
        before = len(self.peaks)
        for group, index in enumerate(kept):
            limits = {int(place): int(peaks[:, place].min()) for place in np.flatnonzero(owner == group)}
            if limits:
                self.add(lower_peak(self.sampled.relative_to(limits), candidates.orders[index], effort))
        return len(self.peaks) > before


def machine_parameters(problem: OrderProblem) -> frozenset[str]:
    """The variables that no buffer's size depends on, only workspace: parameters of the machine."""
    in_buffers = frozenset[str]().union(*(size.dims for size in problem.sizes))
    return frozenset(problem.program.scope.ranges) - in_buffers


def orders_at(sized: SizedProblem, orders: Sequence[Order], effort: Effort | None = None) -> list[Order]:
    """Orders made for one valuation: by every scheduler that looks at sizes, and the best ones repaired; best last.

    Args:
        sized: The problem at the valuation.
        orders: Legal orders to begin with, the program's own first.
        effort: How hard repair tries.
    """
    found = exact_orders(sized)
    ranked = sorted(dict.fromkeys((*orders, *found)), key=sized.peak)
    repaired = [lower_peak(sized, order, effort) for order in dict.fromkeys((orders[0], *ranked[:2]))]
    # The program's own order, repaired, goes first among equals: it disturbs locality least.
    return [*found, min(repaired, key=sized.peak)]


def _between(low: int, value: int, high: int) -> int:
    return max(low, min(value, high))
