"""Conversion from sympy, with torch's functions recognised by name."""

from itertools import product
from typing import Any

import pytest
import sympy
from hypothesis import given, settings, strategies as st

from lowtide.symbolic import Expr, ceil_div, dim, evaluate, maximum, minimum, mod
from lowtide.symbolic.from_sympy import from_sympy

x, y = sympy.symbols("x y", integer=True, positive=True)
X, Y = dim("x"), dim("y")


def refuse(expression: sympy.Expr) -> str:
    raise AssertionError(f"unexpectedly unknown: {expression}")


def function(name: str) -> Any:
    return sympy.Function(name)


@pytest.mark.parametrize(
    ("given_form", "expected"),
    [
        (sympy.Integer(4), Expr({(): 4})),
        (3 * x**2 * y - 4 * x + 1, 3 * X**2 * Y - 4 * X + 1),
        (sympy.floor(x / 2), X // 2),
        (sympy.floor((3 * x + y) / 4) * 2, (3 * X + Y) // 4 * 2),
        (sympy.floor(x / 2 + y / 3), (3 * X + 2 * Y) // 6),
        (sympy.floor(x / y), X // Y),
        (sympy.ceiling(x / 8) * 8, ceil_div(X, 8) * 8),
        (sympy.Mod(x, 4), mod(X, 4)),
        (sympy.Max(x, y, 3), maximum(X, Y, 3)),
        (sympy.Min(x, y), minimum(X, Y)),
        (function("FloorDiv")(x + 1, 2), (X + 1) // 2),
        (function("CleanDiv")(x, y), X // Y),
        (function("CeilDiv")(x, 3), ceil_div(X, 3)),
        (function("PythonMod")(x, 5), mod(X, 5)),
        (function("ModularIndexing")(x, 2, 4), mod(X // 2, 4)),
        (function("Max")(x, 7), maximum(X, 7)),
        (function("Identity")(x), X),
        (function("PowByNatural")(x, 3), X**3),
    ],
)
def test_known_forms(given_form: Any, expected: Expr) -> None:
    assert from_sympy(given_form, refuse) == expected


@pytest.mark.parametrize(
    "given_form",
    [
        sympy.Piecewise((x, x > 3), (y, True)),
        function("TruncToInt")(x / 2),
        function("Where")(x, y, x),
        sympy.sqrt(x),
        x / 2,
        x**-1,
        sympy.Float(2.5),
        sympy.floor(sympy.sqrt(x)),
        sympy.Rational(1, 2) + x,
        2**x,
    ],
)
def test_unknown_forms_become_a_variable(given_form: Any) -> None:
    asked: list[sympy.Expr] = []

    def unknown(expression: sympy.Expr) -> str:
        asked.append(expression)
        return f"u{len(asked)}"

    result = from_sympy(given_form, unknown)
    assert asked
    assert result.dims & {f"u{i + 1}" for i in range(len(asked))}


def test_an_unknown_part_is_asked_for_once() -> None:
    asked: list[sympy.Expr] = []

    def unknown(expression: sympy.Expr) -> str:
        asked.append(expression)
        return "u"

    part = function("TruncToInt")(x)
    assert from_sympy(part * 4 + sympy.Max(part, y), unknown) == 4 * dim("u") + maximum(dim("u"), Y)
    assert asked == [part]


def test_torch_functions_are_recognised() -> None:
    functions = pytest.importorskip("torch.utils._sympy.functions")
    assert from_sympy(functions.FloorDiv(x + 3, 4), refuse) == (X + 3) // 4
    assert from_sympy(functions.CleanDiv(x, 4), refuse) == X // 4
    assert from_sympy(functions.ModularIndexing(x, 4, 8), refuse) == mod(X // 4, 8)
    assert from_sympy(functions.Mod(x, 4), refuse) == mod(X, 4)
    assert from_sympy(functions.PythonMod(x, 4), refuse) == mod(X, 4)
    assert from_sympy(functions.Max(x, y), refuse) == maximum(X, Y)
    assert from_sympy(functions.Min(x, 9), refuse) == minimum(X, 9)
    assert from_sympy(functions.CeilDiv(x, 4), refuse) == ceil_div(X, 4)
    quotient = functions.IntTrueDiv(x, 32)
    assert from_sympy(functions.CeilToInt(quotient), refuse) == ceil_div(X, 32)
    assert from_sympy(functions.FloorToInt(quotient), refuse) == X // 32


def sympy_trees() -> st.SearchStrategy[sympy.Expr]:
    leaves = st.one_of(st.sampled_from([x, y]), st.integers(-9, 9).map(sympy.Integer))
    divisors = st.one_of(st.integers(1, 7).map(sympy.Integer), st.sampled_from([x, y, x + 1]))

    def extend(inner: st.SearchStrategy[sympy.Expr]) -> st.SearchStrategy[sympy.Expr]:
        return st.one_of(
            st.builds(lambda a, b: a + b, inner, inner),
            st.builds(lambda a, b: a * b, inner, inner),
            st.builds(sympy.Max, inner, inner),
            st.builds(sympy.Min, inner, inner),
            st.builds(lambda a, b: sympy.floor(a / b), inner, divisors),
            st.builds(lambda a, b: sympy.ceiling(a / b), inner, divisors),
            st.builds(sympy.Mod, inner, divisors),
        )

    return st.recursive(leaves, extend, max_leaves=5)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(sympy_trees())
def test_conversion_agrees_with_sympy(expression: Any) -> None:
    converted = from_sympy(expression, refuse)
    for at_x, at_y in product((1, 4, 7), (1, 3)):
        assert evaluate(converted, {"x": at_x, "y": at_y}) == int(expression.subs({x: at_x, y: at_y}))
