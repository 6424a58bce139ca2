"""Every way of ordering gives a legal order, the same one each time; small programs get the best order there is."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings

from lowtide.analysis import dependences
from lowtide.ir import Flag, Program, ProgramBuilder
from lowtide.plan import Plan, Reason, check_plan
from lowtide.schedule.candidates import Candidates, find_candidates
from lowtide.schedule.choice import keep_orders
from lowtide.schedule.list_order import ListTally, sized_order, symbolic_order
from lowtide.schedule.numbers import SampledProblem, SizedProblem, at_valuation
from lowtide.schedule.problem import Order, order_problem
from lowtide.schedule.repair import lower_peak
from lowtide.schedule.samples import sample_valuations
from lowtide.schedule.schedulers import ANY_SIZE, EXACT_SIZES, best_of
from tests.random_programs import programs
from tests.scenarios import diamond, two_towers
from tests.schedule.orders import legal_orders

VALUATION = {"b": 3, "s": 2, "kept": 1}
SCHEDULERS: dict[str, Callable[[SizedProblem], Order]] = {
    **{name: lambda sized, made=made: made(sized.problem) for name, made in ANY_SIZE.items()},
    **EXACT_SIZES,
    "best": best_of,
    "repaired": lambda sized: lower_peak(sized, sized.problem.program_order),
}


@pytest.mark.parametrize("name", SCHEDULERS)
@given(program=programs())
def test_orders_are_legal_and_deterministic(name: str, program: Program) -> None:
    order = SCHEDULERS[name](at_valuation(order_problem(program), VALUATION))
    assert dependences(program).is_order(order)
    assert check_plan(program, Plan(order, {})).accepted
    assert SCHEDULERS[name](at_valuation(order_problem(program), VALUATION)) == order


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_program_without_a_choice_keeps_its_order(name: str) -> None:
    builder = ProgramBuilder("line").dim("n", 1, 8).input("x", ["n"])
    before = "x"
    for number in range(5):
        builder.statement(f"f{number}", reads=[before], defines={f"v{number}": ["n"]})
        before = f"v{number}"
    problem = order_problem(builder.forward_output(before).build())
    assert SCHEDULERS[name](at_valuation(problem, {"n": 3})) == problem.program_order


def test_the_least_impact_runs_first_as_in_the_paper() -> None:
    """dot allocates 11008*s1 and frees 12*s1; its rival allocates 4096*s0 with s0 = 12*s1."""
    program = (
        ProgramBuilder("paper")
        .dim("s1", 1, 1024)
        .input("x", [1])
        .statement("make", reads=["x"], defines={"a": ["12*s1"]})
        .statement("rival", reads=["x"], defines={"r": ["49152*s1"]})
        .statement("dot", reads=["a"], defines={"d": ["11008*s1"]})
        .statement("end", reads=["r", "d"], defines={"y": [1]})
        .forward_output("y")
        .build()
    )
    tally = ListTally()
    order = symbolic_order(order_problem(program), tally=tally)
    assert [program.statements[number].name for number in order] == ["make", "dot", "rival", "end"]
    assert tally.by_impact == tally.choices == 2


def test_a_run_time_check_stays_before_what_uses_the_size() -> None:
    """item; check(u); then statements of which those that need u must wait for the check."""
    builder = ProgramBuilder("checked").dim("s", 1, 64).dim("u", 0, 64).input("x", ["s"])
    builder.statement("item", reads=["x"], defines_dims=["u"], allocates=False)
    builder.statement("check", reads_dims=["u"], flags=[Flag.SIDE_EFFECT], allocates=False)
    builder.statement("free", reads=["x"], defines={"a": ["s"]})
    builder.statement("use", reads=["x"], defines={"b": ["u"]})
    program = builder.forward_output("a", "b").build()
    graph = dependences(program)
    assert graph.is_order((0, 2, 1, 3))
    assert not graph.is_order((0, 3, 1, 2))
    assert check_plan(program, Plan((0, 2, 1, 3), {})).accepted
    rejected = check_plan(program, Plan((0, 3, 1, 2), {}))
    assert not rejected.accepted
    assert rejected.reason is Reason.UNCHECKED


def test_topology_decides_where_impacts_cannot_be_compared() -> None:
    tally = ListTally()
    symbolic_order(order_problem(two_towers()), tally=tally)
    assert tally.by_topology > 0


def _best(candidates: Candidates, sample: int) -> int:
    return min(peaks[sample] for peaks in candidates.peaks)


@given(programs(4))
@settings(max_examples=40)
def test_the_best_candidate_at_a_sample_is_the_best_of_all_legal_orders(program: Program) -> None:
    problem = order_problem(program)
    candidates = find_candidates(problem, 3)
    for index, valuation in enumerate(sample_valuations(program.scope, 64)[:4]):
        sized = at_valuation(problem, valuation)
        assert _best(candidates, index) == min(sized.peak(order) for order in legal_orders(problem))


@given(programs())
@settings(max_examples=40)
def test_repair_never_raises_the_peak(program: Program) -> None:
    sized = at_valuation(order_problem(program), VALUATION)
    for order in (sized.problem.program_order, sized_order(sized)):
        assert sized.peak(lower_peak(sized, order)) <= sized.peak(order)


@given(programs())
@settings(max_examples=40)
def test_repair_for_several_valuations_never_raises_the_worst_relative_peak(program: Program) -> None:
    problem = order_problem(program)
    sampled = SampledProblem.of(problem, sample_valuations(program.scope, 6))
    limits = {index: max(1, peak // 2) for index, peak in enumerate(sampled.peaks(problem.program_order))}
    relative = sampled.relative_to(limits)
    repaired = lower_peak(relative, problem.program_order)
    assert dependences(program).is_order(repaired)
    assert max(relative.heights(repaired)) <= max(relative.heights(problem.program_order))
    exact = [peak / limits[index] for index, peak in enumerate(sampled.peaks(repaired))]
    assert max(relative.heights(repaired)) == pytest.approx(max(exact))


def _two_places() -> Program:
    """At each place two large temporaries, of size a and of size b, that need not live together, but do."""
    builder = ProgramBuilder("places").dim("a", 1, 500).dim("b", 1, 500).input("x", ["a", "b"])
    results: list[str] = []
    for size in ("a", "b"):
        for branch in "pq":
            builder.statement(f"make_{size}{branch}", reads=["x", *results[-2:]], defines={f"{size}{branch}": [size]})
        for branch in "pq":
            results.append(f"{size}{branch}_sum")
            builder.statement(f"sum_{size}{branch}", reads=[f"{size}{branch}"], defines={results[-1]: [1]})
    builder.statement("join", reads=results, defines={"y": [1]})
    return builder.forward_output("y").build()


def test_repair_for_several_valuations_mends_a_place_for_each() -> None:
    problem = order_problem(_two_places())
    sampled = SampledProblem.of(problem, [{"a": 400, "b": 1}, {"a": 1, "b": 400}])
    limits = {index: min(p.peak(o) for o in legal_orders(problem)) for index, p in enumerate(sampled.samples)}
    assert all(peak > limits[index] for index, peak in enumerate(sampled.peaks(problem.program_order)))
    repaired = lower_peak(sampled.relative_to(limits), problem.program_order)
    assert sampled.peaks(repaired) == tuple(limits.values())


def test_a_candidate_is_best_at_every_sample_where_one_order_can_be() -> None:
    candidates = find_candidates(order_problem(_two_places()), 3)
    best = tuple(min(column) for column in zip(*candidates.peaks, strict=True))
    assert best in candidates.peaks


def test_kept_orders_are_best_together_and_as_few_as_needed() -> None:
    problem = order_problem(two_towers())
    candidates = find_candidates(problem, 3)
    kept = keep_orders(candidates.peaks, 3)
    assert 0 not in kept
    for sample in range(len(candidates.peaks[0])):
        assert min(candidates.peaks[k][sample] for k in (0, *kept)) == _best(candidates, sample)
    assert keep_orders(find_candidates(order_problem(diamond()), 3).peaks, 3) == ()
