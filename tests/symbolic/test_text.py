"""Text: what is printed, read back, and refused."""

import pytest

from lowtide.symbolic import (
    Expr,
    ParseError,
    ceil_div,
    dim,
    evaluate,
    maximum,
    minimum,
    mod,
    parse,
    render,
    render_python,
)

s, b = dim("s"), dim("b")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (s - s, "0"),
        (-s, "-s"),
        (8 - s, "-s + 8"),
        (12 * s * s * b, "12*b*s^2"),
        (s // 2, "floor(s/2)"),
        ((s + b) // 2, "floor((b + s)/2)"),
        (3 * s // b, "floor(3*s/b)"),
        (s // (b + 1), "floor(s/(b + 1))"),
        (maximum(s // 2, b), "max(b, floor(s/2))"),
        ((s // 2) ** 2, "floor(s/2)^2"),
    ],
)
def test_canonical_text(expression: Expr, text: str) -> None:
    assert render(expression) == text
    assert parse(text) == expression


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("s//2", s // 2),
        ("s % 4", mod(s, 4)),
        ("mod(s, 4)", mod(s, 4)),
        ("ceil(s/4)", ceil_div(s, 4)),
        ("ceil((s + 1)/b)", ceil_div(s + 1, b)),
        ("min(s, b, 3)", minimum(s, b, 3)),
        ("floor(-s/2)", (-s) // 2),
        ("-s**2*3 + (2)", 2 - 3 * s * s),
        (" 2 * ( s + b ) ", 2 * (s + b)),
        ("floor(s)", s),
    ],
)
def test_other_notations_are_read(text: str, expression: Expr) -> None:
    assert parse(text) == expression


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("s +", 3),
        ("s b", 2),
        ("2.5*s", 1),
        ("floor(s + 1/2)", 11),
        ("floor(s/0)", 8),
        ("s // 0", 5),
        ("max()", 4),
        ("mod(s)", 5),
        ("s^-1", 2),
        ("s^b", 2),
        ("s^999", 2),
        ("lambda", 0),
        ("(s", 2),
        ("s; import os", 1),
        ("max", 3),
        ("(" * 500 + "s" + ")" * 500, 100),
        ("9" * 5000, 0),
    ],
)
def test_a_text_that_is_no_expression_is_refused_where_it_breaks(text: str, position: int) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert caught.value.position == position
    assert "Try:" in str(caught.value)


@pytest.mark.parametrize("s_value", [-7, -1, 0, 5, 9])
def test_python_source_keeps_precedence(s_value: int) -> None:
    for expression in (-(s // 2), 3 * (s // 4), (s // 4) ** 2, (s - 1) // 3 - s, maximum(s, 3) * -1, 5 - s % 4):
        source = render_python(expression)
        assert eval(source, {"max": max, "s": s_value}) == evaluate(expression, {"s": s_value})
