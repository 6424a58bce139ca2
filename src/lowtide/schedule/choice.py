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
from dataclasses import dataclass

from lowtide.schedule.delay import delayed_order
from lowtide.schedule.list_order import sized_order, symbolic_order, topology_order
from lowtide.schedule.numbers import SizedProblem, at_valuation
from lowtide.schedule.problem import Order, OrderProblem
from lowtide.schedule.repair import Effort, lower_peak
from lowtide.schedule.samples import sample_valuations
from lowtide.schedule.walks import depth_first_order, reverse_post_order


@dataclass(frozen=True, slots=True)
class Candidates:
    """Orders and how good each is at sampled valuations.

    Attributes:
        orders: Legal orders, the program's own first.
        peaks: For each order its peak in bytes at each sample.
    """

    orders: tuple[Order, ...]
    peaks: tuple[tuple[int, ...], ...]

    def best(self, sample: int) -> int:
        """The least peak at a sample."""
        return min(peaks[sample] for peaks in self.peaks)


def find_candidates(problem: OrderProblem) -> Candidates:
    """Order a program in every way that is known, and at a few valuations by exact sizes.

    Cost: linear in statements times the distinct impacts that are ready at once; the number of sampled valuations falls
        with the number of statements.
    """
    count = max(1, len(problem.predecessors))
    samples = [
        at_valuation(problem, v)
        for v in sample_valuations(
            problem.program.scope, _between(8, 200_000 // count, 64), machine_parameters(problem)
        )
    ]
    orders: dict[Order, None] = {problem.program_order: None}
    for order in (
        symbolic_order(problem),
        symbolic_order(problem, topology=False),
        topology_order(problem),
        depth_first_order(problem),
        reverse_post_order(problem),
    ):
        orders[order] = None
    general = list(orders)
    for sized in samples[: _between(2, 1_500 // count, 64)]:
        for order in orders_at(sized, general):
            orders[order] = None
    peaks = tuple(tuple(sized.peak(order) for sized in samples) for order in orders)
    return Candidates(tuple(orders), peaks)


def machine_parameters(problem: OrderProblem) -> frozenset[str]:
    """The variables that no buffer's size depends on, only workspace: parameters of the machine."""
    in_buffers = frozenset[str]().union(*(size.dims for size in problem.sizes))
    return frozenset(problem.program.scope.ranges) - in_buffers


def orders_at(sized: SizedProblem, orders: Sequence[Order], effort: Effort | None = None) -> list[Order]:
    """Orders made for one valuation: by exact impacts, by delaying, and the best ones repaired; best last.

    Args:
        sized: The problem at the valuation.
        orders: Legal orders to begin with, the program's own first.
        effort: How hard repair tries.
    """
    found = list(orders)
    by_impact = sized_order(sized)
    found += [by_impact, delayed_order(sized, orders[0]), delayed_order(sized, by_impact)]
    ranked = sorted(dict.fromkeys(found), key=sized.peak)
    repaired = [lower_peak(sized, order, effort) for order in dict.fromkeys((orders[0], *ranked[:2]))]
    # The program's own order, repaired, goes first among equals: it disturbs locality least.
    best = min(repaired, key=sized.peak)
    return [*found[len(orders) :], best]


def keep_orders(candidates: Candidates, most: int) -> tuple[int, ...]:
    """Choose the fewest candidates, at most `most`, that are best at every sample together with the first one.

    Greedy: each time the one that is best at most of the samples still open; the earlier candidate among equals.
    Where `most` do not suffice, those that leave the least excess are kept.

    Returns:
        Indices, without 0: the first candidate, the program's own order, is kept in any case.
    """
    samples = range(len(candidates.peaks[0]))
    best = [candidates.best(sample) for sample in samples]
    reached = list(candidates.peaks[0])
    kept: list[int] = []

    def gain(index: int) -> tuple[int, float]:
        peaks = candidates.peaks[index]
        closed = sum(peaks[s] == best[s] < reached[s] for s in samples)
        excess = sum(min(peaks[s], reached[s]) / max(1, best[s]) for s in samples)
        return (closed, -excess)

    while len(kept) < most and reached != best:
        chosen = max(range(len(candidates.peaks)), key=gain)
        kept.append(chosen)
        reached = [min(reached[s], candidates.peaks[chosen][s]) for s in samples]
    return tuple(sorted(kept))


def _between(low: int, value: int, high: int) -> int:
    return max(low, min(value, high))
