"""The plans of a program: each kept order with the storage reuse that suits it."""

from __future__ import annotations

from dataclasses import dataclass

from lowtide.analysis import PeakTable, memory_profile
from lowtide.ir import Program, reorder
from lowtide.plan import Plan, apply_plan
from lowtide.schedule.choice import find_candidates, keep_orders
from lowtide.schedule.in_place import choose_in_place
from lowtide.schedule.problem import Order, order_problem
from lowtide.symbolic import compare

MOST_ORDERS = 4


@dataclass(frozen=True, slots=True)
class KeptPlans:
    """What is kept of a program's orders.

    Attributes:
        plans: At least one; where there are several, the first is the program's own order.
        peaks: Predicted peak of each, over variables known at entry; empty where there is one plan.
    """

    plans: tuple[Plan, ...]
    peaks: tuple[PeakTable, ...]


def make_plans(program: Program) -> KeptPlans:
    """Choose orders and storage reuse.

    Args:
        program: Verified program.

    Returns:
        Plans of which at every valuation the one with the least peak is never worse than the program's own order.

    Cost: near linear in statements; see `find_candidates`.
    """
    tangents_held = scalar_tangents(program)
    candidates = find_candidates(order_problem(program, tangents_held=tangents_held))
    own = candidates.orders[0]
    others = [candidates.orders[index] for index in keep_orders(candidates, MOST_ORDERS - 1)]
    orders = (own, *others)
    plans = tuple(plan_order(program, order) for order in orders)
    if len(plans) == 1:
        return KeptPlans(plans, ())
    profiles = [memory_profile(apply_plan(program, plan), tangents_held=tangents_held) for plan in plans]
    tables = tuple(profile.peak_table for profile in profiles)
    if any(table.dims & program.run_time_dims for table in tables):
        # Nothing can be chosen at entry by a size that is not known there.
        own_peak = profiles[0].peak
        better = [
            p for p, q in zip(plans, profiles, strict=True) if compare(q.peak, own_peak, program.scope).is_at_most
        ]
        return KeptPlans((better[-1],), ())
    return KeptPlans(plans, tables)


def plan_order(program: Program, order: Order, *, across_boundary: bool = True) -> Plan:
    """Plan a program in a given order; see `choose_in_place`."""
    return Plan(order, choose_in_place(reorder(program, order), across_boundary=across_boundary))


def scalar_tangents(program: Program) -> frozenset[str]:
    """Tangents of single elements: the gradient that `loss.backward()` begins with, held until it returns."""
    return frozenset(program.values[t].buffer for t in program.tangents if not program.values[t].shape)
