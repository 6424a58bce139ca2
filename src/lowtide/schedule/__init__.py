"""Decisions about order and storage, each an algorithm in a file of its own."""

from lowtide.schedule.in_place import choose_in_place
from lowtide.schedule.plans import KeptPlans, OrderPeak, make_plans, plan_order, scalar_tangents

__all__ = ["KeptPlans", "OrderPeak", "choose_in_place", "make_plans", "plan_order", "scalar_tangents"]
