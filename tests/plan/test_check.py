from random import Random

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from lowtide.analysis import dependences, memory_profile
from lowtide.ir import Flag, Program, ProgramBuilder, verify_program
from lowtide.plan import Accepted, Plan, Reason, Rejected, apply_plan, check_plan
from lowtide.symbolic import CompareTally
from tests.interpreter import is_wrong
from tests.random_programs import HIGH, make_reuse, programs
from tests.scenarios import SCENARIOS, diamond, everything, long_skip, staircase, two_towers


def _reason(program: Program, plan: Plan) -> Reason:
    answer = check_plan(program, plan)
    assert isinstance(answer, Rejected), answer
    assert answer.detail
    assert not answer.accepted
    return answer.reason


def _program_order(program: Program) -> tuple[int, ...]:
    return tuple(range(len(program.statements)))


@pytest.mark.parametrize("name", SCENARIOS)
def test_accepts_program_order(name: str):
    program = SCENARIOS[name]()
    assert check_plan(program, Plan(_program_order(program))) == Accepted()


def test_accepts_another_order():
    assert check_plan(two_towers(), Plan((0, 2, 1, 3, 4))).accepted


def test_accepts_a_chain_of_reuse_and_counts_its_comparisons():
    tally = CompareTally()
    plan = Plan(tuple(range(7)), {"d3": "u4", "d2": "d3", "d1": "d2"})
    assert check_plan(staircase(), plan, tally=tally) == Accepted()
    assert tally.comparisons == 3
    planned = apply_plan(staircase(), plan)
    verify_program(planned)
    assert [str(size) for size in memory_profile(planned).footprints] == [
        "4*n", "12*n", "20*n", "28*n", "16*n", "16*n", "16*n",
    ]  # fmt: skip


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 1, 2, 2), (0, 1, 2, 4), (0, 1, 2, 3, 3)])
def test_rejects_what_is_not_a_permutation(order: tuple[int, ...]):
    assert _reason(diamond(), Plan(order)) is Reason.NOT_A_PERMUTATION


def test_rejects_forward_after_backward():
    program = (
        ProgramBuilder("two phases").dim("n").input("x", ["n"]).statement("f", reads=["x"], defines={"a": ["n"]})
        .backward().statement("g", reads=["x"], defines={"b": ["n"]}).backward_output("b").build()
    )  # fmt: skip
    assert _reason(program, Plan((1, 0))) is Reason.PHASES_MIXED


def test_rejects_a_read_before_the_write():
    assert _reason(diamond(), Plan((1, 0, 2, 3))) is Reason.READ_BEFORE_WRITTEN


def test_rejects_a_run_time_size_before_it_is_known():
    program = (
        ProgramBuilder("sizes").dim("n").dim("u", 0, 9).input("x", ["n"])
        .statement("pick", reads=["x"], defines_dims=["u"], allocates=False)
        .statement("zeros", defines={"z": ["u"]})
        .forward_output("z").build()
    )  # fmt: skip
    assert _reason(program, Plan((1, 0))) is Reason.DIM_NOT_KNOWN


def test_rejects_a_read_after_the_storage_was_overwritten():
    # h puts c into the storage of a, then g wants a.
    assert _reason(diamond(), Plan((0, 2, 1, 3), {"c": "a"})) is Reason.OVERWRITTEN
    assert check_plan(diamond(), Plan((0, 1, 2, 3), {"c": "a"})).accepted


def test_rejects_a_read_that_sees_another_version():
    program = (
        ProgramBuilder("in place").dim("n").input("x", ["n"])
        .statement("f", reads=["x"], defines={"a": ["n"]})
        .statement("before", reads=["a"], defines={"b": ["n"]})
        .statement("change", writes=["a"])
        .statement("after", reads=["a", "b"], defines={"c": ["n"]})
        .forward_output("c").build()
    )  # fmt: skip
    assert _reason(program, Plan((0, 2, 1, 3))) is Reason.WRONG_VERSION


def test_rejects_reuse_that_the_kernel_does_not_permit():
    assert _reason(diamond(), Plan((0, 1, 2, 3), {"d": "b"})) is Reason.REUSE_NOT_PERMITTED


def test_rejects_storage_that_is_merely_dead():
    # a is dead when k runs, but k does not read it.
    assert _reason(diamond(), Plan((0, 1, 2, 3), {"d": "a"})) is Reason.REUSE_NOT_PERMITTED


def test_rejects_two_values_in_one_storage():
    program = (
        ProgramBuilder("twins").dim("n").input("x", ["n"])
        .statement("f", reads=["x"], defines={"a": ["n"]})
        .statement("g", reads=["a"], defines={"b": ["n"], "c": ["n"]}, may_reuse=[("b", "a"), ("c", "a")])
        .forward_output("b", "c").build()
    )  # fmt: skip
    assert check_plan(program, Plan((0, 1), {"c": "a"})).accepted
    assert _reason(program, Plan((0, 1), {"b": "a", "c": "a"})) is Reason.REUSE_NOT_PERMITTED


def test_rejects_reuse_by_a_call_that_returns_its_own_storage():
    program = (
        ProgramBuilder("own").dim("n").input("x", ["n"])
        .statement("f", reads=["x"], defines={"a": ["n"]})
        .statement("g", reads=["a"], defines={"b": ["n"]}, may_reuse=[("b", "a")], allocates=False)
        .forward_output("b").build()
    )  # fmt: skip
    assert _reason(program, Plan((0, 1), {"b": "a"})) is Reason.REUSE_NOT_PERMITTED


def test_rejects_a_larger_value_and_one_whose_size_depends_on_the_shape():
    program = (
        ProgramBuilder("sizes").dim("n", 1, 100).dim("m", 1, 100).input("x", ["n", "m"])
        .statement("f", reads=["x"], defines={"a": ["n"]})
        .statement("g", reads=["a"], defines={"b": ["2*n"]}, may_reuse=[("b", "a")])
        .statement("h", reads=["b"], defines={"c": ["m"]}, may_reuse=[("c", "b")])
        .forward_output("c").build()
    )  # fmt: skip
    assert _reason(program, Plan((0, 1, 2), {"b": "a"})) is Reason.SIZE_NOT_PROVED
    assert _reason(program, Plan((0, 1, 2), {"c": "b"})) is Reason.SIZE_NOT_PROVED


def test_rejects_another_device():
    program = (
        ProgramBuilder("devices").dim("n").input("x", ["n"])
        .buffer("a", "4*n").place("a", "a", ["n"])
        .buffer("b", "4*n", device="cuda:0").place("b", "b", ["n"])
        .statement("f", reads=["x"], places=["a"])
        .statement("g", reads=["a"], places=["b"], may_reuse=[("b", "a")])
        .forward_output("b").build()
    )  # fmt: skip
    assert _reason(program, Plan((0, 1), {"b": "a"})) is Reason.DEVICE_DIFFERS


def test_rejects_storage_of_the_caller():
    program = long_skip()
    assert _reason(program, Plan(_program_order(program), {"dy": "s"})) is Reason.STORAGE_NOT_OURS
    assert _reason(program, Plan(_program_order(program), {"s": "x"})) is Reason.STORAGE_NOT_OURS


def _scaled_gradient(reader: str) -> Program:
    """Backward multiplies the tangent in a kernel that may do so in place; then `reader` is read."""
    return (
        ProgramBuilder("scaled").dim("n", 1, 64).input("x", ["n"]).tangent("dy", ["n"])
        .statement("f", reads=["x"], defines={"y": ["n"]})
        .backward()
        .statement("scale", reads=["dy"], defines={"dx": ["n"]}, may_reuse=[("dx", "dy")])
        .statement("sum", reads=[reader], defines={"db": [1]})
        .forward_output("y").backward_output("dx", "db").build()
    )  # fmt: skip


def test_a_tangent_may_give_its_storage_to_what_is_made_of_it():
    program = _scaled_gradient("dx")
    assert check_plan(program, Plan((0, 1, 2), {"dx": "dy"})).accepted
    planned = apply_plan(program, Plan((0, 1, 2), {"dx": "dy"}))
    verify_program(planned)
    assert planned.tangents_taken == {"dy"}
    assert program.tangents_taken == frozenset()


def test_a_tangent_that_is_read_again_keeps_its_storage():
    assert _reason(_scaled_gradient("dy"), Plan((0, 1, 2), {"dx": "dy"})) is Reason.OVERWRITTEN


def test_rejects_unknown_buffers_and_circles():
    assert _reason(diamond(), Plan((0, 1, 2, 3), {"c": "nothing"})) is Reason.UNKNOWN_BUFFER
    assert _reason(diamond(), Plan((0, 1, 2, 3), {"c": "a", "a": "c"})) is Reason.CIRCULAR_REUSE
    assert _reason(diamond(), Plan((0, 1, 2, 3), {"c": "c"})) is Reason.CIRCULAR_REUSE


def test_rejects_an_output_whose_storage_is_taken_over():
    program = (
        ProgramBuilder("outputs").dim("n").input("x", ["n"])
        .statement("f", reads=["x"], defines={"a": ["n"]})
        .statement("g", reads=["a"], defines={"b": ["n"]}, may_reuse=[("b", "a")])
        .forward_output("a", "b").build()
    )  # fmt: skip
    assert _reason(program, Plan((0, 1), {"b": "a"})) is Reason.OUTPUT_OVERWRITTEN


@pytest.mark.parametrize("flag", [Flag.RANDOM, Flag.COLLECTIVE, Flag.SIDE_EFFECT])
def test_rejects_flagged_statements_that_change_places(flag: Flag):
    program = (
        ProgramBuilder("flags").dim("n").input("x", ["n"])
        .statement("f", reads=["x"], defines={"a": ["n"]}, flags=[flag])
        .statement("g", reads=["x"], defines={"b": ["n"]}, flags=[flag])
        .forward_output("a", "b").build()
    )  # fmt: skip
    assert _reason(program, Plan((1, 0))) is Reason.FLAGGED_ORDER


def test_accepts_a_program_that_shares_storage_already():
    program = everything()
    assert check_plan(program, Plan(_program_order(program))).accepted
    planned = apply_plan(staircase(), Plan(tuple(range(7)), {"d3": "u4", "d2": "d3", "d1": "d2"}))
    assert check_plan(planned, Plan(tuple(range(7)))).accepted


def _random_order(program: Program, rng: Random) -> tuple[int, ...]:
    """Mostly an order that respects the dependences, sometimes one with two statements swapped, or any."""
    graph = dependences(program)
    left = [len(before) for before in graph.predecessors]
    done: list[int] = []
    ready = [number for number, count in enumerate(left) if not count]
    while ready:
        forward = [number for number in ready if number < graph.boundary]
        number = rng.choice(forward or ready)
        ready.remove(number)
        done.append(number)
        for following in graph.successors[number]:
            left[following] -= 1
            if not left[following]:
                ready.append(following)
    if rng.random() < 0.3 and len(done) > 1:
        place = rng.randrange(len(done) - 1)
        done[place], done[place + 1] = done[place + 1], done[place]
    return tuple(done)


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.randoms(use_true_random=False))
def test_rejects_exactly_the_plans_that_compute_something_else(program: Program, rng: Random):
    plan = Plan(_random_order(program, rng), make_reuse(rng, program))
    answer = check_plan(program, plan)
    if isinstance(answer, Rejected) and answer.reason is Reason.SIZE_NOT_PROVED and "UNKNOWN" in answer.detail:
        return
    assert is_wrong(program, plan.order, plan.reuse, HIGH) == (not answer.accepted), answer
    if answer.accepted:
        verify_program(apply_plan(program, plan))


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.randoms(use_true_random=False))
def test_accepts_exactly_the_orders_that_respect_the_dependences(program: Program, rng: Random):
    order = _random_order(program, rng)
    assert check_plan(program, Plan(order)).accepted == dependences(program).is_order(order)
