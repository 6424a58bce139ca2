"""Bounds are proved, and tight where the size is simple."""

import pytest

from lowtide.symbolic import AtMost, Divisible, Equal, Expr, Scope, bounds, const, dim, maximum, minimum, mod

s, b, u, n = dim("s"), dim("b"), dim("u"), dim("n")
SCOPE = Scope({"s": (1, 10), "b": (2, None)})


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (const(7), (7, 7)),
        (3 * s - 2, (1, 28)),
        (b * s, (2, None)),
        (-b * s, (None, -2)),
        (s - s // 2, (1, 5)),
        (s * s - s, (0, 90)),
        (s // 3, (0, 3)),
        (mod(s, 4), (0, 3)),
        (maximum(s, 4), (4, 10)),
        (minimum(s, b), (1, 10)),
        (s // b, (0, 5)),
        (b - b, (0, 0)),
    ],
)
def test_bounds_of_simple_sizes(expression: Expr, expected: tuple[int | None, int | None]) -> None:
    assert bounds(expression, SCOPE) == expected


def test_bounds_use_constraints() -> None:
    at_most = Scope({"u": (0, None), "n": (1, 512)}, [AtMost(u, n)])
    assert bounds(u, at_most) == (0, 512)
    assert bounds(4 * n - 4 * u, at_most)[0] == 0
    assert bounds(n, Scope({"n": (1, None), "s": (1, 4)}, [Equal(n, 12 * s)])) == (12, 48)
    assert bounds(s, Scope({"s": (3, 70)}, [Divisible(s, 8)])) == (8, 64)
