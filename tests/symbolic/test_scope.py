"""Scopes: what they admit, how contradictions are told."""

import pickle
from random import Random

import pytest

from lowtide.symbolic import AtMost, Divisible, Equal, MissingVariableError, Scope, ScopeError, dim, maximum

s, b, u, n = dim("s"), dim("b"), dim("u"), dim("n")


def test_admits_ranges_and_constraints() -> None:
    scope = Scope({"s": (2, 64), "b": (1, None)}, [Divisible(s, 8), AtMost(s * b, 4096)])
    assert scope.admits({"s": 8, "b": 512})
    assert not scope.admits({"s": 8, "b": 513})
    assert not scope.admits({"s": 9, "b": 1})
    assert not scope.admits({"s": 72, "b": 1})
    assert scope.admits({"s": 8, "b": 1, "other": 3})
    with pytest.raises(MissingVariableError):
        scope.admits({"s": 8})


def test_a_scope_is_a_value() -> None:
    scope = Scope({"s": (2, 64)}, [Divisible(s, 8), Divisible(s, 8)])
    assert scope == Scope({"s": (2, 64)}).with_constraint(Divisible(s, 8))
    assert hash(scope) == hash(pickle.loads(pickle.dumps(scope)))
    assert len(scope.constraints) == 1
    with pytest.raises(TypeError):
        scope.ranges["s"] = (0, 1)  # pyright: ignore[reportIndexIssue]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Scope({"s": (5, 4)}),
        lambda: Scope({"s": (1, 4)}, [Equal(s, 7)]),
        lambda: Scope({"s": (1, 4), "b": (9, 12)}, [AtMost(b, s)]),
        lambda: Scope({"s": (1, 4)}, [Equal(s, s + 1)]),
        lambda: Scope({"s": (1, 4)}, [Divisible(2 * s + 1, 2)]),
    ],
)
def test_contradictions_are_errors(make: object) -> None:
    assert callable(make)
    with pytest.raises(ScopeError):
        make()


def test_a_constraint_needs_ranges_for_its_variables() -> None:
    with pytest.raises(MissingVariableError, match="'b'"):
        Scope({"s": (1, 4)}, [AtMost(s, b)])


@pytest.mark.parametrize(
    "scope",
    [
        Scope({"s": (1, 4096), "b": (1, 4096)}, [Equal(b, 12 * s)]),
        Scope({"u": (0, None), "n": (0, None)}, [AtMost(u, n)]),
        Scope({"s": (2, 8192)}, [Divisible(s, 64)]),
        Scope({"s": (2, 8192), "b": (1, 64)}, [AtMost(s * b, 8192)]),
        Scope({"s": (1, 100), "b": (1, 100), "n": (1, 10000)}, [Equal(n, s * b)]),
        Scope({"s": (1, 100), "b": (1, 100)}, [Equal(b, s // 2)]),
        Scope({"s": (1, 100), "b": (1, 100)}, [Equal(b, maximum(s, 8))]),
        Scope({"s": (1, 50), "b": (1, 50), "u": (1, 50), "n": (1, 50)}, [Equal(s * b, u * n)]),
    ],
)
def test_samples_are_admitted_and_differ(scope: Scope) -> None:
    rng = Random(7)
    found = [scope.sample(rng) for _ in range(20)]
    assert all(scope.admits(valuation) for valuation in found)
    assert len({tuple(valuation.values()) for valuation in found}) > 3
    assert [scope.sample(Random(5)) for _ in range(3)] == [scope.sample(Random(5)) for _ in range(3)]
