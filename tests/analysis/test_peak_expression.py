import random
from random import Random

import numpy as np
from hypothesis import given, settings, strategies as st

from benchmarks.statements import VALUATION, measure, training_program
from lowtide.analysis import memory_profile, peak_of_rows
from lowtide.analysis.envelope import envelope_rows
from lowtide.ir import ProgramBuilder, verify_program
from lowtide.symbolic import Expr, Scope, const, evaluate, parse

NO_DIRECTIONS = np.zeros((2, 1))


def _kept(*rows: tuple[int, int]) -> list[int]:
    return envelope_rows(np.array(rows, dtype=np.int64), NO_DIRECTIONS)


def test_a_row_below_another_goes():
    assert _kept((1, 2), (3, 4), (2, 2)) == [1]


def test_of_equal_rows_one_stays():
    assert len(_kept((1, 2), (1, 2), (0, 5), (1, 2))) == 2


def test_rows_on_a_line_leave_their_ends():
    assert _kept((0, 4), (1, 3), (2, 2), (3, 1), (4, 0)) == [0, 4]


def test_rows_above_the_line_stay():
    assert _kept((0, 4), (3, 3), (4, 0)) == [0, 1, 2]


def test_a_row_kept_before_the_pair_that_covers_it_goes_in_the_end():
    # The sum of (3, 3) is the largest that is left after (9, 0), and (0, 9) comes later.
    assert _kept((9, 0), (4, 4), (0, 9)) == [0, 2]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(*[st.integers(-20, 20)] * 3), min_size=1, max_size=30),
    st.randoms(use_true_random=False),
    st.booleans(),
)
def test_the_envelope_has_the_maximum_of_all_rows(rows: list[tuple[int, ...]], rng: Random, exact: bool):
    table = np.array(rows, dtype=object if exact else np.int64)
    kept = table[envelope_rows(table, np.eye(3))]
    for _ in range(20):
        values = np.array([rng.choice([0, 1, 2, 5, 100, 10**6]) for _ in range(3)])
        assert (table @ values).max() == (kept @ values).max()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(*[st.integers(-9, 9)] * 5), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_the_peak_is_the_largest_at_every_valuation(rows: list[tuple[int, ...]], rng: Random):
    """Atoms of every kind: variables with positive, zero and negative lower ends, floors and maxima."""
    monomials = [next(iter(parse(text).terms)) for text in ("a", "a*b", "b^2", "floor((a - 7*c)/3)", "c*max(a, c)")]
    scope = Scope({"a": (2, 50), "b": (0, None), "c": (-5, 5)})
    top = peak_of_rows(monomials, np.array(rows, dtype=np.int64), scope)
    exprs = [Expr({m: c for m, c in zip(monomials, row, strict=True) if c}) for row in rows]
    for _ in range(30):
        valuation = scope.sample(rng)
        assert evaluate(top, valuation) == max(evaluate(expr, valuation) for expr in exprs)


def test_the_scope_decides_what_coefficients_do_not():
    # With s in [1, 10], s^2 <= 10*s: only the comparison knows.
    program = (
        ProgramBuilder("scope").dim("s", 1, 10).input("x", ["s"])
        .statement("f", reads=["x"], defines={"a": ["s", "s"]})
        .statement("g", reads=["x"], defines={"b": ["10*s"]})
        .forward_output("b").build()
    )  # fmt: skip
    assert memory_profile(program).peak == parse("40*s")


def test_no_rows_or_no_columns():
    assert peak_of_rows([], np.zeros((3, 0), dtype=np.int64), Scope({})) == const(0)
    assert peak_of_rows([()], np.zeros((0, 1), dtype=np.int64), Scope({})) == const(0)
    assert peak_of_rows([()], np.array([[3], [7], [5]]), Scope({})) == const(7)


def test_the_peak_of_a_deep_training_step_is_short():
    """A hundred blocks leave a handful of candidates, not a hundred."""
    program = training_program(2000)
    verify_program(program)
    profile = memory_profile(program)
    top = profile.peak
    assert len(str(top)) < 600
    rng = random.Random(1)
    for valuation in [VALUATION, *(program.scope.sample(rng) for _ in range(20))]:
        assert evaluate(top, valuation) == profile.at(valuation).max()


def test_stages_of_a_long_program_are_timed():
    assert measure(60)["total"] > 0
