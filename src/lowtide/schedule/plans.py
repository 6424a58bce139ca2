"""The plans of a program: each kept order with the storage reuse that suits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowtide.analysis import MemoryProfile, PeakTable, memory_profile
from lowtide.ir import Program, reorder
from lowtide.plan import Plan, apply_plan
from lowtide.schedule.candidates import find_candidates
from lowtide.schedule.choice import keep_orders
from lowtide.schedule.in_place import choose_in_place
from lowtide.schedule.problem import Order, order_problem
from lowtide.symbolic import compare

MOST_ORDERS = 4


@dataclass(frozen=True, slots=True)
class OrderPeak:
    """What a choice between orders looks at.

    Attributes:
        peak: Predicted peak, workspace of unknown size left out.
        not_above: Bytes in which an order must not be above the program's own: beside each workspace of unknown size,
            and the peak where incoming gradients may not be written over.
    """

    peak: PeakTable
    not_above: tuple[PeakTable, ...]

    @property
    def dims(self) -> frozenset[str]:
        """The dimension variables that it depends on."""
        return self.peak.dims.union(*(table.dims for table in self.not_above))


@dataclass(frozen=True, slots=True)
class KeptPlans:
    """What is kept of a program's orders.

    Attributes:
        plans: At least one; where there are several, the first is the program's own order.
        peaks: Predicted peak of each, over variables known at entry; empty where there is one plan.
    """

    plans: tuple[Plan, ...]
    peaks: tuple[OrderPeak, ...]


def make_plans(program: Program) -> KeptPlans:
    """Choose orders and storage reuse.

    Args:
        program: Verified program.

    Returns:
        Plans of which at every valuation the one with the least peak is never worse than the program's own order, among
        those that are no higher where a workspace of unknown size comes on top, and no higher where incoming gradients
        are held by others.

    Cost: near linear in statements; see `find_candidates`.
    """
    tangents_held = scalar_tangents(program)
    most = MOST_ORDERS - 1  # beside the program's own
    candidates = find_candidates(order_problem(program, tangents_held=tangents_held), most)
    orders = [candidates.orders[index] for index in (0, *keep_orders(candidates.peaks, most))]
    plans = tuple(plan_order(program, order) for order in orders)
    if len(plans) == 1:
        return KeptPlans(plans, ())
    profiles = [memory_profile(apply_plan(program, plan), tangents_held=tangents_held) for plan in plans]
    sparing = [
        _sparing_profile(program, plan, tangents_held) if profile.program.tangents_taken else profile
        for plan, profile in zip(plans, profiles, strict=True)
    ]
    tables = tuple(_order_peak(profile, spared) for profile, spared in zip(profiles, sparing, strict=True))
    if any(table.dims & program.run_time_dims for table in tables):
        # Nothing can be chosen at entry by a size that is not known there.
        return KeptPlans((plans[_proved_best(profiles, sparing)],), ())
    return KeptPlans(plans, tables)


def plan_order(program: Program, order: Order, *, across_boundary: bool = True, into_tangents: bool = True) -> Plan:
    """Plan a program in a given order; see `choose_in_place`.

    Args:
        program: Verified program.
        order: A legal order.
        across_boundary: Whether backward may write over storage that forward saved.
        into_tangents: Whether backward may write over incoming gradients, other than scalar ones.
    """
    tangents = takeable_tangents(program) if into_tangents else frozenset[str]()
    reordered = reorder(program, order)
    return Plan(order, choose_in_place(reordered, across_boundary=across_boundary, tangents=tangents))


def takeable_tangents(program: Program) -> frozenset[str]:
    """Tangents that backward may write over where nobody else holds them: all but those of single elements."""
    return frozenset(program.values[t].buffer for t in program.tangents) - scalar_tangents(program)


def scalar_tangents(program: Program) -> frozenset[str]:
    """Tangents of single elements: the gradient that `loss.backward()` begins with, held until it returns."""
    return frozenset(program.values[t].buffer for t in program.tangents if not program.values[t].shape)


def _sparing_profile(program: Program, plan: Plan, tangents_held: frozenset[str]) -> MemoryProfile:
    """The profile where incoming gradients are left alone."""
    spared = plan_order(program, plan.order, into_tangents=False)
    return memory_profile(apply_plan(program, spared), tangents_held=tangents_held)


def _order_peak(profile: MemoryProfile, sparing: MemoryProfile) -> OrderPeak:
    steps = {profile.program.statements[number].name: step for step, number in enumerate(profile.order)}
    unknown = sorted({statement for statement, _ in profile.unknown_workspace})
    beside = tuple(profile.footprint_table(steps[name]) for name in unknown)
    return OrderPeak(profile.peak_table, (*beside, sparing.peak_table))


def _proved_best(profiles: Sequence[MemoryProfile], sparing: Sequence[MemoryProfile]) -> int:
    """The order that is proved never to be higher than those before it; the program's own where nothing is proved."""
    best = 0
    if any(profile.unknown_workspace for profile in profiles):
        return best
    for index in range(1, len(profiles)):
        scope = profiles[index].program.scope
        if all(compare(form[index].peak, form[best].peak, scope).is_at_most for form in (profiles, sparing)):
            best = index
    return best
