"""Greedy scheduling with look-ahead: a rise that pays soon after comes first."""

from hypothesis import given

from lowtide.ir import Program, ProgramBuilder
from lowtide.schedule.list_order import sized_order
from lowtide.schedule.look_ahead import look_ahead_order
from lowtide.schedule.numbers import SizedProblem, at_valuation
from lowtide.schedule.problem import order_problem
from tests.random_programs import programs


def sized(program: Program, **valuation: int) -> SizedProblem:
    return at_valuation(order_problem(program), valuation)


def one_large_rise_beside_small_ones() -> Program:
    """`wide` dies after `fold`, which needs `open`; every step of the chain costs less than `open`, and stays."""
    builder = ProgramBuilder("rises").dim("n", 1, 100).input("x", ["n"])
    builder.statement("make", reads=["x"], defines={"wide": [20, "n"]})
    kept: list[str] = []
    for number in range(4):
        reads = [*kept[-1:], *([] if kept else ["wide"])]
        kept.append(f"c{number}")
        builder.statement(f"chain{number}", reads=reads, defines={kept[-1]: [3, "n"]})
    builder.statement("open", reads=["wide"], defines={"opened": [4, "n"]})
    builder.statement("fold", reads=["wide", "opened"], defines={"folded": [1]})
    builder.statement("join", reads=[*kept, "folded"], defines={"y": [1]})
    return builder.forward_output("y").build()


def test_a_rise_that_frees_much_soon_after_runs_before_smaller_ones() -> None:
    problem = sized(one_large_rise_beside_small_ones(), n=10)
    names = [problem.problem.program.statements[n].name for n in look_ahead_order(problem)]
    assert names.index("fold") < names.index("chain1")
    assert problem.peak(look_ahead_order(problem)) < problem.peak(sized_order(problem))


def test_without_a_choice_the_order_stays() -> None:
    builder = ProgramBuilder("line").dim("n", 1, 8).input("x", ["n"])
    builder.statement("f", reads=["x"], defines={"v": ["n"]}).statement("g", reads=["v"], defines={"w": ["n"]})
    assert look_ahead_order(sized(builder.forward_output("w").build(), n=3)) == (0, 1)


@given(programs())
def test_every_statement_runs_once(program: Program) -> None:
    problem = sized(program, b=3, s=2, kept=1)
    assert sorted(look_ahead_order(problem)) == [*problem.problem.program_order]
