"""Applies a plan to a program."""

from __future__ import annotations

from lowtide.ir import Program, reorder, replace_buffers
from lowtide.plan.plan import Plan


def apply_plan(program: Program, plan: Plan) -> Program:
    """Return the program with its statements in the plan's order and its storage shared as the plan says.

    Args:
        program: The program the plan was made for.
        plan: A plan that `check_plan` accepts. One that it rejects may give a program that computes something
            else, or one that does not verify.

    Returns:
        The planned program. Buffers that took over other storage are gone; their values live on in it.

    Raises:
        EditError: If the order is not a permutation, a buffer does not exist, or reuse goes in a circle.

    Cost: O(statements + values).
    """
    return replace_buffers(reorder(program, plan.order), plan.reuse)
