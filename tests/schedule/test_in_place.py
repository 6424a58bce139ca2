"""Storage is taken over only where that is allowed, and never raises a footprint."""

from hypothesis import given, strategies as st

from lowtide.analysis import memory_profile
from lowtide.ir import Program, ProgramBuilder
from lowtide.plan import Plan, apply_plan, check_plan
from lowtide.schedule import choose_in_place
from lowtide.schedule.plans import takeable_tangents
from lowtide.symbolic import CompareTally
from tests.random_programs import programs


def chain(second: list[int | str]) -> Program:
    """x -> a -> b, where b may take over the storage of a."""
    return (
        ProgramBuilder("chain")
        .dim("n", 1, 64)
        .input("x", ["n"])
        .statement("f", reads=["x"], defines={"a": ["n"]})
        .statement("g", reads=["a"], defines={"b": second}, may_reuse=[("b", "a")])
        .statement("h", reads=["b"], defines={"y": ["n"]})
        .forward_output("y")
        .build()
    )


def test_a_dying_operand_of_equal_size_is_taken_over() -> None:
    assert choose_in_place(chain(["n"])) == {"b": "a"}


def test_a_smaller_value_does_not_pin_a_larger_storage() -> None:
    assert choose_in_place(chain([1])) == {}


def test_an_operand_that_is_read_again_keeps_its_storage() -> None:
    program = (
        ProgramBuilder("again")
        .dim("n", 1, 64)
        .input("x", ["n"])
        .statement("f", reads=["x"], defines={"a": ["n"]})
        .statement("g", reads=["a"], defines={"b": ["n"]}, may_reuse=[("b", "a")])
        .statement("h", reads=["a", "b"], defines={"y": ["n"]})
        .forward_output("y")
        .build()
    )
    assert choose_in_place(program) == {}


def test_a_tangent_is_taken_over_where_that_is_asked_for() -> None:
    program = (
        ProgramBuilder("scaled")
        .dim("n", 1, 64)
        .input("x", ["n"])
        .tangent("dy", ["n"])
        .statement("f", reads=["x"], defines={"y": ["n"]})
        .backward()
        .statement("scale", reads=["dy"], defines={"dx": ["n"]}, may_reuse=[("dx", "dy")])
        .forward_output("y")
        .backward_output("dx")
        .build()
    )
    assert choose_in_place(program) == {}
    assert choose_in_place(program, tangents={"dy"}) == {"dx": "dy"}


@given(programs(), st.booleans(), st.booleans())
def test_every_choice_is_accepted_by_the_checker_and_lowers_or_keeps_each_footprint(
    program: Program, across_boundary: bool, into_tangents: bool
) -> None:
    tally = CompareTally()
    tangents = takeable_tangents(program) if into_tangents else ()
    reuse = choose_in_place(program, across_boundary=across_boundary, tangents=tangents, tally=tally)
    plan = Plan(tuple(range(len(program.statements))), reuse)
    assert check_plan(program, plan).accepted
    assert tally.comparisons >= len(plan.reuse)
    planned = apply_plan(program, plan)
    for batch, length, kept in ((1, 1, 0), (2, 3, 1), (4, 4, 4)):
        valuation = {"b": batch, "s": length, "kept": kept}
        assert (memory_profile(planned).at(valuation) <= memory_profile(program).at(valuation)).all()


@given(programs())
def test_without_crossing_the_boundary_backward_takes_over_nothing_that_forward_made(program: Program) -> None:
    forward = {
        program.values[name].buffer
        for statement in program.statements[: program.first_backward]
        for name in statement.defines
    }
    backward = {
        program.values[name].buffer
        for statement in program.statements[program.first_backward :]
        for name in statement.defines
    } - forward
    reuse = choose_in_place(program, across_boundary=False)
    for taker in reuse.keys() & backward:
        root = taker
        while root in reuse:
            root = reuse[root]
        assert root not in forward
