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

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from lowtide.schedule.numbers import SampledProblem, SizedProblem
from lowtide.schedule.problem import Order, OrderProblem
from lowtide.schedule.repair import Effort, lower_peak
from lowtide.schedule.samples import sample_valuations
from lowtide.schedule.schedulers import ANY_SIZE, exact_orders

_CONSIDERED = 20
"""Of how many candidates every combination is tried."""
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


def choose_orders(problem: OrderProblem, most: int) -> tuple[Order, ...]:
    """Choose the orders of a program that are kept.

    Args:
        problem: The program's.
        most: How many may be kept beside the program's own.

    Returns:
        Legal orders: the program's own first.

    Cost: see `find_candidates`.
    """
    candidates = find_candidates(problem, most)
    return (candidates.orders[0], *(candidates.orders[index] for index in keep_orders(candidates, most)))


def find_candidates(problem: OrderProblem, most: int) -> Candidates:
    """Order a program in every way that is known, at sampled valuations by exact sizes, and for groups of valuations.

    Args:
        problem: The program's.
        most: How many candidates will be kept beside the program's own: so many groups are made.

    Cost: linear in statements times the distinct impacts that are ready at once; the number of sampled valuations falls
        with the number of statements.
    """
    count = max(1, len(problem.predecessors))
    valuations = sample_valuations(
        problem.program.scope, _between(8, 200_000 // count, 256), machine_parameters(problem)
    )
    pool = _Pool(SampledProblem.of(problem, valuations))
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

    def repair_at_samples(self, most: int) -> None:
        """Repair the best order known at each of the first samples there.

        What was repaired at other samples is repaired again, so that one order becomes good at many. Where an order
        has its peak at the same step as at samples at which no repair was found, none is likely, and few are tried.
        """
        failures: Counter[tuple[Order, int]] = Counter()
        for place, sized in enumerate(self.sampled.samples[:most]):
            order = min(self.peaks, key=lambda order: (self.peaks[order][place], sum(self.peaks[order])))
            heights = sized.heights(order)
            spot = (order, heights.index(max(heights))) if heights else (order, 0)
            if failures[spot] < _FAILURES:
                repaired = lower_peak(sized, order)
                failures[spot] += repaired == order
                self.add(repaired)

    def repair_for_groups(self, most: int, effort: Effort) -> bool:
        """Repair each order that would be kept for all the samples at which it would run, at once.

        The limit at each sample is the best peak known there. Says whether there is a new candidate.
        """
        candidates = self.candidates
        kept = (0, *keep_orders(candidates, most))
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


def keep_orders(candidates: Candidates, most: int) -> tuple[int, ...]:
    """Choose at most `most` candidates that, together with the first one, are closest to the best at every sample.

    The largest excess over the best is made as small as it can be, then the sum of all; the fewest candidates that
    reach this, the earlier ones among equals. Tried are candidates that no other one dominates, and of many those with
    the least sum.

    Returns:
        Indices, without 0: the first candidate, the program's own order, is kept in any case.

    Cost: O(_CONSIDERED ** most) operations on a row of samples.
    """
    peaks = np.array(candidates.peaks, dtype=float)
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


def _between(low: int, value: int, high: int) -> int:
    return max(low, min(value, high))
