"""The normal form: what is rewritten, what is equal, what is refused."""

import pytest

from lowtide.symbolic import (
    Expr,
    as_expr,
    ceil_div,
    const,
    dim,
    evaluate,
    floor_div,
    maximum,
    minimum,
    mod,
    parse,
    substitute,
)

s, b, k = dim("s"), dim("b"), dim("k")


def test_polynomials_have_one_form() -> None:
    assert (s + b) * (s - b) == s * s - b * b
    assert 3 * (s + 2) - s == 2 * s + 6
    assert str(12 * s**2 + 4 * floor_div(s, 2) + maximum(s, 8)) == "12*s^2 + 4*floor(s/2) + max(s, 8)"


def test_cancelled_terms_do_not_take_others_with_them() -> None:
    # The prototype lost terms of a sum whose total happened to be zero.
    total = (4 * s + 3 * b) + (-4 * s) + 5 * k
    assert total == 3 * b + 5 * k
    assert (s - s) + 7 * b == 7 * b
    assert total - total == 0


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ((4 * s + 3) // 4, s),
        ((4 * s + 7) // 4, s + 1),
        ((6 * s + 3) // 9, floor_div(2 * s + 1, 3)),
        ((2 * s + 1) // 4, s // 2),
        ((s // 2) // 3, s // 6),
        ((s // 2 + b) // 3, (s + 2 * b) // 6),
        (ceil_div(ceil_div(s, 2), 2), ceil_div(s, 4)),
        (ceil_div(s, 2), (s + 1) // 2),
        (ceil_div(s, 4), (s + 3) // 4),
        (s // 2 + (s + 1) // 2, s),
        (s // -3, -ceil_div(s, 3)),
        ((b * s + 3 * s) // s, b + 3),
        ((b * s + 5) // s, b + 5 // s),
        ((2 * b * s) // (4 * s), b // 2),
        ((s * s - 1) // (s - 1), s + 1),
        (mod(s, 1), const(0)),
        (mod(4 * s + 3, 4), const(3)),
        (mod(s, 4) + 4 * (s // 4), s),
        (maximum(s + 1, s + 3), s + 3),
        (maximum(3, 8, 5), const(8)),
        (maximum(maximum(s, b), 8), maximum(s, b, 8)),
        (maximum(s, s, b), maximum(b, s)),
        (maximum(s + k, b + k), k + maximum(s, b)),
        (maximum(4 * s, 4 * b), 4 * maximum(s, b)),
        (minimum(s, b) + maximum(s, b), s + b),
        (maximum(s, k + maximum(b, 3)), maximum(s, k + b, k + 3)),
        (maximum(s), s),
    ],
)
def test_equal_sizes_have_equal_forms(expression: Expr, expected: Expr) -> None:
    assert expression == expected
    assert hash(expression) == hash(expected)
    assert str(expression) == str(expected)


@pytest.mark.parametrize("height", [1, 7, 8, 15, 16, 223, 224, 225])
def test_convolution_and_pooling_sizes(height: int) -> None:
    h = dim("h")

    def convolved(size: Expr, kernel: int, stride: int, padding: int, dilation: int = 1) -> Expr:
        return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1

    def plain(size: int, kernel: int, stride: int, padding: int, dilation: int = 1) -> int:
        return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1

    assert convolved(h, 3, 1, 1) == h
    assert convolved(h, 1, 1, 0) == h
    # Five layers of stride 2 collapse to one division by 32.
    size, number = h, height
    for kernel, padding in ((7, 3), (3, 1), (3, 1), (3, 1), (3, 1)):
        size, number = convolved(size, kernel, 2, padding), plain(number, kernel, 2, padding)
    assert size == ceil_div(h, 32)
    assert evaluate(size, {"h": height}) == number
    pooled = ceil_div(h + 2 * 1 - 3, 2) + 1
    assert evaluate(pooled, {"h": height}) == -(-(height + 2 - 3) // 2) + 1
    assert evaluate(convolved(h, 3, 2, 2, 2), {"h": height}) == plain(height, 3, 2, 2, 2)


def test_concatenation_and_slices() -> None:
    assert (s + 8) + s == 2 * s + 8
    start, stop, step = dim("start"), dim("stop"), 3
    length = maximum(ceil_div(minimum(stop, s) - minimum(start, s), step), 0)
    for at in ({"s": 10, "start": 2, "stop": 9}, {"s": 5, "start": 7, "stop": 9}, {"s": 10, "start": 3, "stop": 100}):
        assert evaluate(length, at) == len(range(at["s"])[at["start"] : at["stop"] : step])
    # A tensor cut after its first quarter: the two parts add up.
    part = ceil_div(s, 4)
    assert minimum(part, s) + maximum(s - part, 0) == s


def test_division_by_a_variable_rounds_down_for_both_signs() -> None:
    for value in (-7, -6, -1, 0, 1, 6, 7):
        for divisor in (-3, -2, 2, 3):
            at = {"s": value, "b": divisor}
            assert evaluate(s // b, at) == value // divisor
            assert evaluate(s % b, at) == value % divisor
            assert evaluate(ceil_div(s, b), at) == -(-value // divisor)
            assert evaluate((2 * s * b + s) // (3 * b), at) == (2 * value * divisor + value) // (3 * divisor)


def test_division_by_the_integer_zero_is_refused() -> None:
    with pytest.raises(ZeroDivisionError):
        s // 0
    with pytest.raises(ZeroDivisionError):
        mod(s, b - b)


def test_equality_is_structural_and_total() -> None:
    assert s != b
    assert s != "s"
    assert const(4) == 4
    assert hash(const(4)) == hash(4)
    assert {s: 1}[dim("s")] == 1


def test_an_expression_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match="no truth value"):
        bool(s)


def test_other_numbers_are_refused() -> None:
    with pytest.raises(TypeError, match="not float"):
        s + 1.5  # pyright: ignore[reportOperatorIssue]
    with pytest.raises(TypeError):
        s < b  # noqa: B015  # pyright: ignore[reportOperatorIssue]


@pytest.mark.parametrize("name", ["", "2s", "a b", "max", "floor", "lambda", "s/2"])
def test_a_variable_needs_an_identifier(name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a dimension variable"):
        dim(name)


def test_parts_of_an_expression() -> None:
    expression = 3 * s * floor_div(b, 2) + maximum(k, 4)
    assert expression.dims == {"s", "b", "k"}
    assert not expression.is_constant
    assert (s - s + 5).constant_value == 5
    assert as_expr(3).is_constant
    with pytest.raises(ValueError, match="not a constant"):
        _ = expression.constant_value


def test_substitution_reaches_into_floors_and_maxima() -> None:
    assert substitute(floor_div(s, 4) + maximum(s, 9), {"s": 8 * k}) == 2 * k + maximum(8 * k, 9)
    assert substitute(s + b, {"s": b, "b": s}) == s + b
    assert substitute(s, {}) == s


def test_huge_maxima_stay_small() -> None:
    parts = [dim(f"x{i}") for i in range(200)]
    assert len(maximum(*parts, 5).terms) == 1
    assert parse(str(maximum(*parts, 5))) == maximum(*parts, 5)
