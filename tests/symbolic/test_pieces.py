"""Proofs on pieces of the ranges: whatever is proved holds at every point, and sizes of real programs are proved."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from lowtide.symbolic import AtMost, Expr, Rule, Scope, Verdict, compare, dim, evaluate, parse
from lowtide.symbolic.pieces import prove_by_pieces
from tests.symbolic.strategies import build, trees

A, B, C = dim("a"), dim("b"), dim("c")
RANGES = {"a": (1, 9), "b": (0, 7), "c": (2, 5)}
SMALL = [
    Scope(RANGES),
    Scope(RANGES, [AtMost(A * B, 12)]),
    Scope(RANGES, [AtMost(A * B, 12), AtMost(C, A)]),
    Scope(RANGES, [AtMost((A * C) // 2, 7), AtMost(3, B)]),
]


def _proves(claim: Expr, scope: Scope) -> bool:
    return prove_by_pieces(claim.terms, scope.relations.box, scope.relations.facts, [])


@settings(max_examples=400, deadline=None)
@given(trees(), trees(4), st.integers(-3, 3), st.sampled_from(SMALL))
def test_what_is_proved_holds_at_every_admitted_point(x: Any, y: Any, offset: int, scope: Scope) -> None:
    claim = build(x) - build(y) + offset
    if _proves(claim, scope):
        for point in product(*(range(low, high + 1) for low, high in RANGES.values())):
            valuation = dict(zip(RANGES, point, strict=True))
            if scope.admits(valuation):
                assert evaluate(claim, valuation) >= 0


# Differences that occur between footprints of models, each with the scope of its program.
REAL = [
    pytest.param(
        "-4*s*b + 16*s*t + 528*b*t",
        Scope(
            {"s": (2, 4096), "b": (2, None), "t": (3, 4096)},
            [AtMost(dim("s") * dim("b"), 4096), AtMost(dim("b") * dim("t"), 4096)],
        ),
        id="a term that two bounded products outweigh",
    ),
    pytest.param(
        "512 - 8*floor(s/8)",
        Scope({"b": (2, None), "s": (16, None)}, [AtMost((dim("s") // 8) ** 2 * dim("b"), 4096)]),
        id="a floor that a bounded product of its square bounds",
    ),
    pytest.param(
        "4*s*max(s, 512)*t - 4*s^2*t + 16*b*s^2 + 768*t*max(s, 767) - 768*s*t + 1540*b*s + 1",
        Scope({"b": (2, None), "s": (3, None), "t": (1, 1024)}, [AtMost(dim("b") * dim("s"), 4096)]),
        id="workspaces of attention per thread",
    ),
    pytest.param(
        "max(b + 2, b + t, t + 16, 18) - max(b, 16) - max(t, 2)",
        Scope({"b": (2, 15), "t": (1, 1024)}),
        id="a sum of maxima that was multiplied out",
    ),
]


@pytest.mark.parametrize(("text", "scope"), REAL)
def test_sizes_of_real_programs_are_proved(text: str, scope: Scope) -> None:
    claim = parse(text)
    assert _proves(claim, scope)
    assert not _proves(-claim - 1, scope)
    assert compare(claim, 0, scope).is_at_least


def test_a_comparison_tells_that_pieces_decided_it() -> None:
    scope = Scope(
        {"s": (2, 4096), "b": (2, None), "t": (3, 4096)},
        [AtMost(dim("s") * dim("b"), 4096), AtMost(dim("b") * dim("t"), 4096)],
    )
    answer = compare(parse("16*s*t + 528*b*t"), parse("4*s*b"), scope)
    assert answer[:2] == (Verdict.GREATER_EQUAL, Rule.PIECES)


def test_facts_about_other_variables_do_not_matter() -> None:
    for text, scope in (parameters.values for parameters in REAL):
        ranges = {**scope.ranges, **dict.fromkeys("uvwxyz", (1, None))}
        others = [AtMost(dim(left) * dim(right), 10**6) for left, right in ("uv", "vw", "xy", "yz")]
        assert _proves(parse(text), Scope(ranges, [*others, *scope.constraints]))


def test_facts_that_contradict_each_other_more_at_each_round_end() -> None:
    scope = Scope({"a": (0, None)}, [AtMost(A * A, A)])
    left = parse("floor(-3/max(a, 1))")
    right = parse("a^2 + a + floor(-3/max(a, 1)) - max(a^2, a + floor(-3/max(a, 1)) + 6, floor(-3/max(a, 1)))")
    assert compare(left, right, scope).verdict in Verdict


def test_facts_that_leave_nothing_prove_everything() -> None:
    relations = Scope({"a": (1, 9)}).relations
    assert prove_by_pieces((-A).terms, relations.box, [(A - 20).terms], [])
