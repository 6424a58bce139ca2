"""Plans: what to change about a program, applied, checked independently, and written down."""

from lowtide.plan.apply import apply_plan
from lowtide.plan.check import Accepted, Reason, Rejected, check_plan
from lowtide.plan.plan import Plan
from lowtide.plan.serialise import PlanTextError, plan_from_json, plan_to_json

__all__ = [
    "Accepted",
    "Plan",
    "PlanTextError",
    "Reason",
    "Rejected",
    "apply_plan",
    "check_plan",
    "plan_from_json",
    "plan_to_json",
]
