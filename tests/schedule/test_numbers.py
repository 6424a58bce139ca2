"""Footprints that orders are searched by are those of the memory profile."""

from hypothesis import given, strategies as st

from lowtide.ir import Program
from lowtide.schedule.numbers import at_valuation
from lowtide.schedule.problem import order_problem
from tests.random_programs import programs
from tests.schedule.orders import exact_footprints, legal_orders

VALUATIONS = ({"b": 1, "s": 1, "kept": 0}, {"b": 2, "s": 3, "kept": 1}, {"b": 4, "s": 4, "kept": 4})


@given(programs(4), st.randoms(use_true_random=False))
def test_footprints_of_any_legal_order_are_those_of_the_planned_program(program: Program, rng) -> None:
    problem = order_problem(program)
    orders = [order for order, _ in zip(legal_orders(problem), range(40), strict=False)]
    for order in (problem.program_order, rng.choice(orders)):
        for valuation in VALUATIONS:
            assert at_valuation(problem, valuation).footprints(order) == exact_footprints(program, order, valuation)
