"""Helpers of the tests of orders: every legal order of a small program, and exact footprints of an order."""

from collections.abc import Iterator, Mapping

from lowtide.analysis import memory_profile
from lowtide.ir import Program, reorder
from lowtide.plan import Plan, apply_plan
from lowtide.schedule import choose_in_place
from lowtide.schedule.problem import Order, OrderProblem


def legal_orders(problem: OrderProblem) -> Iterator[Order]:
    """Every legal order, by trying."""
    count = len(problem.predecessors)

    def extend(order: Order) -> Iterator[Order]:
        if len(order) == count:
            yield order
        for number in range(count):
            waits = number >= problem.boundary > len(order)
            if number not in order and not waits and set(problem.predecessors[number]) <= set(order):
                yield from extend((*order, number))

    return extend(())


def exact_footprints(program: Program, order: Order, valuation: Mapping[str, int]) -> list[int]:
    """Footprints of a program planned in an order, by the memory profile."""
    plan = Plan(order, choose_in_place(reorder(program, order)))
    footprints: list[int] = memory_profile(apply_plan(program, plan)).at(valuation).tolist()
    return footprints
