"""Helpers of the tests of orders: every legal order of a small program, and exact footprints of an order."""

from collections.abc import Iterator, Mapping

from lowtide.analysis import memory_profile
from lowtide.ir import Program
from lowtide.plan import apply_plan
from lowtide.schedule import plan_order
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
    footprints: list[int] = memory_profile(apply_plan(program, plan_order(program, order))).at(valuation).tolist()
    return footprints
