"""Constraints that others imply are dropped, and only those."""

from itertools import permutations, product

from hypothesis import given, settings, strategies as st

from lowtide.symbolic import AtMost, Scope, dim, drop_implied, parse

A, B = dim("a"), dim("b")
RANGES = {"a": (1, 12), "b": (2, 9)}
CONSTRAINTS = [
    AtMost(A, B),
    AtMost(3 * A, 3 * B),
    AtMost(A * B, 60),
    AtMost(2 * A * B + 1, 121),
    AtMost(B, A + 6),
    AtMost(A**2, B**2),
    AtMost(2, A * B),
    AtMost(A + 1, B + 2),
    AtMost(B // 2 + A, 9),
]


def _admitted(constraints: list[AtMost]) -> set[tuple[int, int]]:
    scope = Scope(RANGES, constraints)
    points = product(*(range(low, high + 1) for low, high in RANGES.values()))
    return {(a, b) for a, b in points if scope.admits({"a": a, "b": b})}


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(CONSTRAINTS), unique=True))
def test_the_constraints_kept_admit_the_same_valuations(constraints: list[AtMost]) -> None:
    kept = drop_implied(RANGES, constraints)
    assert set(kept) <= set(constraints)
    assert _admitted(kept) == _admitted(constraints)


def test_the_order_given_does_not_matter() -> None:
    for constraints in permutations(CONSTRAINTS[:5]):
        assert drop_implied(RANGES, constraints) == drop_implied(RANGES, CONSTRAINTS[:5])


def test_guards_that_repeat_a_relation_in_other_words_go() -> None:
    ranges: dict[str, tuple[int, int | None]] = {"s": (1, None), "b": (2, None)}
    texts = ["503 <= 503*s", "503*s + 1 <= 503*s*b", "64*s*b <= 262144", "2 <= 64*s*b"]
    guards = [AtMost(*map(parse, text.split(" <= "))) for text in texts]
    assert [str(guard) for guard in drop_implied(ranges, guards)] == ["64*b*s <= 262144"]


def test_constraints_that_all_say_something_stay() -> None:
    assert drop_implied(RANGES, [CONSTRAINTS[2], CONSTRAINTS[0]]) == [CONSTRAINTS[0], CONSTRAINTS[2]]
