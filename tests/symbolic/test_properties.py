"""Properties of symbolic sizes on random expressions, against Python integers and z3."""

import pickle
from random import Random
from typing import Any

import z3
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from lowtide.symbolic import (
    AtMost,
    Divisible,
    Equal,
    Expr,
    Scope,
    Verdict,
    bounds,
    compare,
    compile_batch,
    dim,
    evaluate,
    maximum,
    minimum,
    parse,
    render,
    render_python,
    substitute,
)
from tests.symbolic.strategies import NAMES, build, linear_trees, to_z3, trees, valuations, value_of

FAST = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
FEW = settings(FAST, max_examples=60)


@FAST
@given(trees(), valuations())
def test_an_expression_has_the_value_of_the_python_arithmetic(tree: Any, valuation: dict[str, int]) -> None:
    assert evaluate(build(tree), valuation) == value_of(tree, valuation)


@FAST
@given(trees(), valuations())
def test_python_source_has_the_value_of_the_expression(tree: Any, valuation: dict[str, int]) -> None:
    source = render_python(build(tree))
    # The test runs source that this test made; the library never does.
    assert eval(source, {"max": max, "__builtins__": {}}, dict(valuation)) == value_of(tree, valuation)


@FAST
@given(trees())
def test_text_parses_back_and_prints_the_same(tree: Any) -> None:
    expression = build(tree)
    text = render(expression)
    assert parse(text) == expression
    assert render(parse(text)) == text
    assert hash(parse(text)) == hash(expression)


@FEW
@given(trees())
def test_pickling_keeps_the_expression(tree: Any) -> None:
    expression = build(tree)
    assert pickle.loads(pickle.dumps(expression)) == expression


@FAST
@given(trees(), trees(), trees())
def test_ring_laws_hold_structurally(x: Any, y: Any, z: Any) -> None:
    a, b, c = build(x), build(y), build(z)
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a * b == b * a
    assert a * (b + c) == a * b + a * c
    assert a - a == 0
    negated = -a
    assert -negated == a


@FAST
@given(trees(4), trees(4), trees(4), st.integers(1, 9))
def test_maximum_and_division_laws_hold_structurally(x: Any, y: Any, z: Any, k: int) -> None:
    a, b, c = build(x), build(y), build(z)
    assert maximum(a, b) == maximum(b, a)
    assert maximum(a, a) == a
    assert maximum(a + c, b + c) == c + maximum(a, b)
    assert maximum(k * a, k * b) == k * maximum(a, b)
    assert maximum(a, b) + minimum(a, b) == a + b
    assert (a * k + b) // k == a + b // k
    assert (k * a) // (k * 7) == a // 7


@FAST
@given(st.lists(st.sampled_from([*(dim(name) for name in NAMES), dim("a") * 2 + 3, dim("b") // 2]), min_size=3))
def test_maximum_is_associative(parts: list[Expr]) -> None:
    assert maximum(maximum(*parts[:2]), *parts[2:]) == maximum(*parts)
    assert maximum(parts[0], maximum(*parts[1:])) == maximum(*parts)


@FAST
@given(trees(5), trees(3), valuations())
def test_substitution_agrees_with_evaluation(x: Any, y: Any, valuation: dict[str, int]) -> None:
    replacement = value_of(y, valuation)
    # Divisors are a variable plus a positive integer, so keep the replacement >= 0.
    assume(replacement >= 0)
    expression = substitute(build(x), {"a": build(y)})
    assert evaluate(expression, valuation) == value_of(x, {**valuation, "a": replacement})


@FEW
@given(st.lists(trees(), min_size=1, max_size=8), valuations(0, 10**6))
def test_batches_agree_with_single_evaluation(forest: list[Any], valuation: dict[str, int]) -> None:
    expressions = [build(tree) for tree in forest]
    assert compile_batch(expressions).integers_at(valuation) == [value_of(tree, valuation) for tree in forest]


SCOPES = [
    Scope(dict.fromkeys(NAMES, (0, 60))),
    Scope({"a": (1, 7), "b": (2, 5), "c": (0, 9)}),
    Scope(dict.fromkeys(NAMES, (1, None))),
    Scope(dict.fromkeys(NAMES, (0, 60)), [Equal(dim("a"), 3 * dim("b"))]),
    Scope(dict.fromkeys(NAMES, (0, 60)), [AtMost(dim("a"), dim("b")), AtMost(dim("b"), dim("c"))]),
    Scope(dict.fromkeys(NAMES, (0, 60)), [Divisible(dim("a"), 4), Divisible(dim("b") + 1, 3)]),
    Scope(dict.fromkeys(NAMES, (1, 60)), [Equal(dim("a") * dim("b"), dim("c") * 6)]),
    Scope(dict.fromkeys(NAMES, (1, 60)), [Equal(2 * dim("a"), 3 * dim("b"))]),
    Scope(dict.fromkeys(NAMES, (1, 60)), [Equal(dim("a"), dim("b") + dim("c"))]),
    Scope(dict.fromkeys(NAMES, (1, None)), [AtMost(dim("a") * dim("b"), 300), AtMost(dim("b") * dim("c"), 90)]),
]


def _check_verdict(left: Expr, right: Expr, scope: Scope, seed: int) -> Verdict:
    answer = compare(left, right, scope)
    if answer.verdict is Verdict.SHAPE_DEPENDENT:
        assert answer.less is not None
        assert answer.greater is not None
        assert scope.admits(answer.less)
        assert scope.admits(answer.greater)
        assert evaluate(left, answer.less) < evaluate(right, answer.less)
        assert evaluate(left, answer.greater) > evaluate(right, answer.greater)
    rng = Random(seed)
    for _ in range(12):
        valuation = scope.sample(rng)
        assert scope.admits(valuation)
        a, b = evaluate(left, valuation), evaluate(right, valuation)
        if answer.verdict is Verdict.EQUAL:
            assert a == b
        elif answer.verdict is Verdict.LESS_EQUAL:
            assert a <= b
        elif answer.verdict is Verdict.GREATER_EQUAL:
            assert a >= b
    return answer.verdict


@FAST
@given(trees(), trees(), st.sampled_from(SCOPES), st.integers(0, 2**32))
def test_every_verdict_holds_on_sampled_valuations(x: Any, y: Any, scope: Scope, seed: int) -> None:
    _check_verdict(build(x), build(y), scope, seed)


@FAST
@given(trees(5), trees(5), trees(3), st.sampled_from(SCOPES), st.integers(0, 2**32))
def test_verdicts_on_close_expressions_hold(x: Any, y: Any, z: Any, scope: Scope, seed: int) -> None:
    base, other = build(x), build(z)
    _check_verdict(base + build(y), base + maximum(build(y), other), scope, seed)
    _check_verdict(base * other, base * (other + 1), scope, seed)


@FAST
@given(trees(), st.sampled_from(SCOPES), st.integers(0, 2**32))
def test_bounds_hold_on_sampled_valuations(tree: Any, scope: Scope, seed: int) -> None:
    expression = build(tree)
    low, high = bounds(expression, scope)
    rng = Random(seed)
    for _ in range(12):
        value = evaluate(expression, scope.sample(rng))
        assert low is None or low <= value
        assert high is None or value <= high


@FEW
@given(linear_trees(), linear_trees(), st.sampled_from([SCOPES[0], SCOPES[2], SCOPES[3], SCOPES[4], SCOPES[5]]))
def test_proved_verdicts_hold_in_z3(x: Any, y: Any, scope: Scope) -> None:
    verdict = compare(build(x), build(y), scope).verdict
    assume(verdict in (Verdict.EQUAL, Verdict.LESS_EQUAL, Verdict.GREATER_EQUAL))
    solver = z3.Solver()
    solver.set("timeout", 300)
    for name, (low, high) in scope.ranges.items():
        solver.add(z3.Int(name) >= low)
        if high is not None:
            solver.add(z3.Int(name) <= high)
    for constraint in scope.constraints:
        solver.add(_constraint_to_z3(constraint))
    left, right = to_z3(x), to_z3(y)
    solver.add({Verdict.EQUAL: left != right, Verdict.LESS_EQUAL: left > right}.get(verdict, left < right))
    # "unknown" is a timeout of z3, not a contradiction.
    assert solver.check() != z3.sat


def _constraint_to_z3(constraint: Equal | AtMost | Divisible) -> Any:
    def linear(expression: Expr) -> Any:
        total: Any = z3.IntVal(0)
        for monomial, coefficient in expression.terms.items():
            term: Any = z3.IntVal(coefficient)
            for atom in monomial:
                term = term * z3.Int(str(atom))
            total = total + term
        return total

    if isinstance(constraint, Divisible):
        return linear(constraint.value) % constraint.divisor == 0
    left, right = linear(constraint.left), linear(constraint.right)
    return left == right if isinstance(constraint, Equal) else left <= right
