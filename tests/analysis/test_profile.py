from collections.abc import Mapping
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from lowtide.analysis import (
    FootprintOverflowError,
    LiveBytes,
    LiveRange,
    OrderError,
    PeakFact,
    dependences,
    live_ranges,
    memory_profile,
    peak,
    total_cost,
)
from lowtide.ir import BufferKind, Phase, Program, ProgramBuilder
from lowtide.symbolic import const, evaluate, parse
from tests.random_programs import HIGH, programs
from tests.scenarios import diamond, everything, long_skip, staircase, two_towers


def _footprints(program: Program, order: tuple[int, ...] | None = None, *, outputs_held: bool = True) -> list[str]:
    return [str(size) for size in memory_profile(program, order, outputs_held=outputs_held).footprints]


def test_peak_counts_outputs_before_freeing_operands():
    assert _footprints(diamond()) == ["1024*batch", "3072*batch", "4096*batch", "4096*batch"]
    assert peak(diamond()) == parse("4096*batch")


def test_staircase():
    assert _footprints(staircase()) == ["4*n", "12*n", "20*n", "28*n", "28*n", "20*n", "12*n"]
    assert peak(staircase()) == parse("28*n")


def test_the_peak_is_a_max_where_the_scope_does_not_decide():
    assert peak(two_towers()) == parse("4160*batch + 4*batch*seq")
    assert peak(two_towers(), (0, 2, 1, 3, 4)) == parse("max(4160*batch, 128*batch + 4*batch*seq)")


def test_outputs_are_held_to_the_end_unless_told_otherwise():
    held = ["256*batch", "288*batch", "320*batch", "544*batch", "1024*batch", "768*batch"]
    assert _footprints(long_skip()) == held
    assert _footprints(long_skip(), outputs_held=False) == [*held[:4], "768*batch", "512*batch"]


def test_views_run_time_sizes_workspace_and_tangents():
    profile = memory_profile(everything())
    assert list(profile.footprints) == [
        parse(text)
        for text in (
            "8*batch*seq",
            "8*batch*seq",
            "8*batch*seq",
            "8*batch*seq + 4*kept",
            "12*batch*seq + 4*kept + 1024",
            "16*batch*seq + 4*kept",
        )
    ]
    assert profile.unknown_workspace == (("exp", "library"),)
    assert profile.footprint(3) == parse("8*batch*seq + 4*kept")


def test_workspace_of_unknown_size_counts_where_its_bytes_are_given():
    profile = memory_profile(everything())
    sizes = {"batch": 2, "seq": 3, "kept": 4}
    without, given = profile.at(sizes), profile.at(sizes, {("exp", "library"): 7000})
    assert (given - without).tolist() == [0, 0, 0, 0, 7000, 0]
    fact = profile.peak_at(sizes, {("exp", "library"): 7000})
    assert (fact.bytes, fact.statement) == (int(without[4]) + 7000, "exp")
    assert "library" in {workspace.name for workspace in fact.workspace}
    assert profile.peak_at(sizes).bytes == max(without)


def test_live_ranges_of_views_run_time_sizes_and_tangents():
    assert live_ranges(everything()) == {
        "h": LiveRange(0, 6),
        "picked": LiveRange(3, 6),
        "e": LiveRange(4, 6),
        "dy": LiveRange(5, 6),
    }


def test_a_tangent_that_nothing_uses_is_never_counted_and_one_that_is_returned_stays():
    def build(*, returned: bool) -> Program:
        builder = (
            ProgramBuilder("tangents").dim("n").input("x", ["n"]).tangent("t", ["n"])
            .statement("f", reads=["x"], defines={"a": ["n"]}).backward()
            .statement("g", reads=["x"], defines={"b": ["2*n"]}).statement("h", reads=["b"], defines={"c": ["n"]})
            .forward_output("a").backward_output("c")
        )  # fmt: skip
        return (builder.backward_output("t") if returned else builder).build()

    assert _footprints(build(returned=False)) == ["4*n", "12*n", "16*n"]
    assert live_ranges(build(returned=False))["t"] == LiveRange(1, 1)
    assert _footprints(build(returned=True)) == ["4*n", "16*n", "20*n"]


def test_a_value_that_nothing_reads_lives_during_its_own_step():
    program = (
        ProgramBuilder("dead").dim("n").input("x", ["n"]).statement("f", reads=["x"], defines={"a": ["n"]})
        .statement("g", reads=["x"], defines={"b": ["n"]}).forward_output("b").build()
    )  # fmt: skip
    assert _footprints(program) == ["4*n", "4*n"]


def test_peak_at_names_step_statement_and_buffers():
    fact = memory_profile(everything()).peak_at({"batch": 2, "seq": 10, "kept": 3})
    # step 4: 12*2*10 + 4*3 + 1024; step 5: 16*2*10 + 4*3
    assert fact == PeakFact(
        bytes=1276,
        step=4,
        statement="exp",
        buffers=(LiveBytes("h", 160), LiveBytes("e", 80), LiveBytes("picked", 12)),
        workspace=(LiveBytes("im2col", 1024),),
        left_out=("library",),
    )
    fact = memory_profile(two_towers(), (0, 2, 1, 3, 4)).peak_at({"batch": 3, "seq": 2000})
    assert (fact.bytes, fact.step, fact.statement) == (128 * 3 + 4 * 3 * 2000, 3, "narrow_2")


def test_a_program_without_statements_has_no_peak():
    program = ProgramBuilder("empty").dim("n").input("x", ["n"]).forward_output("x").build()
    profile = memory_profile(program)
    assert peak(program) == profile.peak == const(0)
    assert profile.footprints == ()
    assert profile.at({"n": 3}).shape == (0,)
    assert profile.peak_at({"n": 3}) == PeakFact(0, -1, "", (), ())


def test_a_program_that_allocates_nothing_has_zero_footprints():
    program = ProgramBuilder("views").dim("n").input("x", ["n"]).view("v", "x", ["n"]).forward_output("v").build()
    assert memory_profile(program).at({"n": 3}).tolist() == [0]
    assert peak(program) == const(0)


@pytest.mark.parametrize("order", [(), (0, 1, 2), (0, 1, 2, 2)])
def test_orders_must_be_permutations(order: tuple[int, ...]):
    with pytest.raises(OrderError):
        memory_profile(diamond(), order)


def test_large_numbers_are_exact_or_refused():
    program = (
        ProgramBuilder("large").dim("n", 0).dim("m", 0).input("x", ["n"])
        .buffer("a", "4*n^3 - 4*n^3*m + 9000000000000000000*m").place("a", "a", [0])
        .statement("f", reads=["x"], places=["a"]).forward_output("a").build()
    )  # fmt: skip
    profile = memory_profile(program)
    # The single terms need more than 64 bits here, their sum does not.
    n = 2**21
    assert profile.at({"n": n, "m": 1}).tolist() == [9 * 10**18]
    assert profile.at({"n": 7, "m": 0}).tolist() == [4 * 7**3]
    with pytest.raises(FootprintOverflowError, match="64-bit"):
        profile.at({"n": 0, "m": 2})
    assert evaluate(profile.footprint(0), {"n": 0, "m": 2}) == 18 * 10**18


def test_costs_add_up_by_phase():
    whole = total_cost(diamond())
    assert (whole.flops, whole.bytes_moved) == (parse("263424*batch"), parse("3072*batch"))
    assert whole.unpriced == ()
    assert total_cost(diamond(), Phase.BACKWARD).flops == const(0)
    assert total_cost(two_towers()).unpriced == ("widen_1", "widen_2", "narrow_1", "narrow_2", "join")


def _simulate(program: Program, order: list[int], valuation: Mapping[str, int], *, held: bool) -> list[int]:
    """Count live bytes the plain way: at each step ask of each buffer whether it was born and is still wanted."""
    counts: list[int] = []
    under_forward = {program.values[o.value].buffer for o in program.forward_outputs if o.value is not None}
    under_backward = {program.values[o.value].buffer for o in program.backward_outputs if o.value is not None}
    phases = [program.statements[number].phase for number in order]
    for step, number in enumerate(order):
        total = 0
        for buffer in program.buffers.values():
            if buffer.kind not in (BufferKind.INTERMEDIATE, BufferKind.TANGENT):
                continue
            values = set(program.values_in(buffer.name))
            births = [s for s, n in enumerate(order) if values & set(program.statements[n].defines)]
            uses = births + [
                s
                for s, n in enumerate(order)
                if values & set(program.statements[n].reads + program.statements[n].writes)
            ]
            if buffer.kind is BufferKind.TANGENT:
                born = Phase.BACKWARD in phases[: step + 1]
            else:
                born = any(s <= step for s in births)
            wanted = any(s >= step for s in uses) or buffer.name in under_backward
            if buffer.name in under_forward:
                wanted = wanted or held or Phase.FORWARD in phases[step:]
            if born and wanted:
                total += evaluate(buffer.size, valuation)
        for workspace in program.statements[number].workspace:
            if workspace.size is not None:
                total += evaluate(workspace.size, valuation)
        counts.append(total)
    return counts


def _valid_order(program: Program, rng: Random) -> list[int]:
    graph = dependences(program)
    done: list[int] = []
    left = set(range(len(program.statements)))
    while left:
        ready = [number for number in sorted(left) if not left & set(graph.predecessors[number])]
        forward = [number for number in ready if number < graph.boundary]
        done.append(rng.choice(forward or ready))
        left.remove(done[-1])
    return done


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.randoms(use_true_random=False), st.booleans())
def test_profile_equals_a_plain_simulation(program: Program, rng: Random, held: bool):
    order = _valid_order(program, rng)
    profile = memory_profile(program, order, outputs_held=held)
    top = profile.peak
    for _ in range(3):
        valuation = {name: rng.randint(low, HIGH) for name, (low, _) in program.scope.ranges.items()}
        expected = _simulate(program, order, valuation, held=held)
        assert profile.at(valuation).tolist() == expected
        assert profile.at(valuation).dtype == np.int64
        assert [evaluate(size, valuation) for size in profile.footprints] == expected
        assert evaluate(top, valuation) == max(expected)
        fact = profile.peak_at(valuation)
        assert fact.bytes == max(expected)
        assert sum(live.size_bytes for live in fact.buffers + fact.workspace) == fact.bytes
