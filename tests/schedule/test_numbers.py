"""Footprints that orders are searched by are those of the memory profile, one valuation or many at a time."""

from hypothesis import given, strategies as st

from lowtide.ir import Program, ProgramBuilder
from lowtide.schedule.numbers import SampledProblem, at_valuation
from lowtide.schedule.problem import order_problem
from tests.random_programs import programs
from tests.scenarios import two_towers
from tests.schedule.orders import exact_footprints, legal_orders

VALUATIONS = ({"b": 1, "s": 1, "kept": 0}, {"b": 2, "s": 3, "kept": 1}, {"b": 4, "s": 4, "kept": 4})


@given(programs(4), st.randoms(use_true_random=False))
def test_footprints_of_any_legal_order_are_those_of_the_planned_program(program: Program, rng) -> None:
    problem = order_problem(program)
    orders = [order for order, _ in zip(legal_orders(problem), range(40), strict=False)]
    for order in (problem.program_order, rng.choice(orders)):
        for valuation in VALUATIONS:
            assert at_valuation(problem, valuation).footprints(order) == exact_footprints(program, order, valuation)


@given(programs(4))
def test_peaks_at_many_valuations_are_those_at_each(program: Program) -> None:
    problem = order_problem(program)
    sampled = SampledProblem.of(problem, VALUATIONS)
    order = problem.program_order
    assert sampled.peaks(order) == tuple(at_valuation(problem, v).peak(order) for v in VALUATIONS)


def test_peaks_beyond_machine_integers_are_exact() -> None:
    program = ProgramBuilder("huge").dim("n").input("x", [1]).statement("f", reads=["x"], defines={"a": ["n*n*n"]})
    problem = order_problem(program.forward_output("a").build())
    sampled = SampledProblem.of(problem, [{"n": 2**22}, {"n": 2}])
    assert sampled.peaks(problem.program_order) == (4 * 2**66, 32)


def test_no_valuation_gives_no_peak() -> None:
    problem = order_problem(two_towers())
    assert SampledProblem.of(problem, []).peaks(problem.program_order) == ()
