"""Kept plans are accepted by the checker, and the one with the least peak is never worse than program order."""

from hypothesis import given, settings

from lowtide.analysis import memory_profile
from lowtide.ir import Program, ProgramBuilder
from lowtide.plan import apply_plan, check_plan
from lowtide.schedule import make_plans, plan_order
from lowtide.schedule.problem import order_problem
from lowtide.symbolic import Divisible, dim
from tests.random_programs import programs
from tests.scenarios import diamond, two_towers
from tests.schedule.orders import exact_footprints, legal_orders

ALL = [{"b": b, "s": s, "kept": k} for b in (1, 2, 4) for s in (1, 3, 4) for k in (0, 2)]


@given(programs(6))
@settings(max_examples=60)
def test_the_chosen_plan_is_legal_and_never_worse_at_any_size(program: Program) -> None:
    kept = make_plans(program)
    own = memory_profile(apply_plan(program, plan_order(program, tuple(range(len(program.statements))))))
    profiles = [memory_profile(apply_plan(program, plan)) for plan in kept.plans]
    assert all(check_plan(program, plan).accepted for plan in kept.plans)
    for valuation in ALL:
        peaks = [profile.peak_at(valuation).bytes for profile in profiles]
        if kept.peaks:
            assert [kept_peak.peak.at(valuation) for kept_peak in kept.peaks] == peaks
        assert min(peaks) <= own.peak_at(valuation).bytes


def test_several_orders_are_kept_where_the_winner_depends_on_the_shape() -> None:
    kept = make_plans(two_towers())
    profiles = [memory_profile(apply_plan(two_towers(), plan)) for plan in kept.plans]
    assert len(kept.plans) > 1
    problem = order_problem(two_towers())
    for batch, seq in ((1, 5), (64, 4096), (7, 1008), (7, 1009)):
        valuation = {"batch": batch, "seq": seq}
        best = min(max(exact_footprints(two_towers(), order, valuation)) for order in legal_orders(problem))
        assert min(profile.peak_at(valuation).bytes for profile in profiles) == best


def test_a_program_with_nothing_to_gain_keeps_its_order_alone() -> None:
    kept = make_plans(diamond())
    assert [plan.order for plan in kept.plans] == [(0, 1, 2, 3)]
    assert kept.peaks == ()


def test_a_scope_whose_valuations_are_hard_to_find_is_planned() -> None:
    n = dim("n")
    for relation in (Divisible(n * n + n, 100), Divisible(n * n + n, 1536)):
        builder = ProgramBuilder("rare").dim("n", 2).relate(relation).input("x", ["n"])
        builder.statement("f", reads=["x"], defines={"y": ["n"]}).forward_output("y")
        assert make_plans(builder.build()).plans[0].order == (0,)
