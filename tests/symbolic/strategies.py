"""Random expressions as trees, with two meanings that must agree: an Expr, and plain Python arithmetic."""

from typing import Any

import z3
from hypothesis import strategies as st

from lowtide.symbolic import Expr, ceil_div, const, dim, floor_div, maximum, minimum, mod

NAMES = ("a", "b", "c")

Tree = tuple[Any, ...]


def trees(max_leaves: int = 8) -> st.SearchStrategy[Tree]:
    """Trees over three variables; divisors are positive: an integer, or a variable plus an integer >= 1."""
    leaves = st.one_of(
        st.sampled_from([("dim", name) for name in NAMES]),
        st.integers(-20, 20).map(lambda value: ("const", value)),
    )
    divisors = st.one_of(
        st.integers(1, 12).map(lambda value: ("const", value)),
        st.builds(lambda name, more: ("+", ("dim", name), ("const", more)), st.sampled_from(NAMES), st.integers(1, 3)),
    )

    def extend(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
        return st.one_of(
            st.tuples(st.sampled_from(["+", "-", "*", "max", "min"]), inner, inner),
            st.tuples(st.sampled_from(["//", "%", "ceil"]), inner, divisors),
        )

    return st.recursive(leaves, extend, max_leaves=max_leaves)


def linear_trees(max_leaves: int = 6) -> st.SearchStrategy[Tree]:
    """Trees whose products have an integer on one side and whose divisors are integers: z3 decides these fast."""
    leaves = st.one_of(
        st.sampled_from([("dim", name) for name in NAMES[:2]]),
        st.integers(-9, 9).map(lambda value: ("const", value)),
    )
    integers = st.integers(1, 6).map(lambda value: ("const", value))

    def extend(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
        return st.one_of(
            st.tuples(st.sampled_from(["+", "-", "max", "min"]), inner, inner),
            st.tuples(st.sampled_from(["*", "//", "%", "ceil"]), inner, integers),
        )

    return st.recursive(leaves, extend, max_leaves=max_leaves)


def valuations(low: int = 0, high: int = 60) -> st.SearchStrategy[dict[str, int]]:
    return st.fixed_dictionaries({name: st.integers(low, high) for name in NAMES})


def build(tree: Tree) -> Expr:
    """The tree as an expression."""
    match tree:
        case ("dim", str(name)):
            return dim(name)
        case ("const", int(value)):
            return const(value)
        case (str(operator), left, right):
            return _apply(operator, build(left), build(right))
        case _:
            raise AssertionError(tree)


def _apply(operator: str, left: Expr, right: Expr) -> Expr:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "max":
            return maximum(left, right)
        case "min":
            return minimum(left, right)
        case "//":
            return floor_div(left, right)
        case "%":
            return mod(left, right)
        case _:
            return ceil_div(left, right)


def value_of(tree: Tree, valuation: dict[str, int]) -> int:
    """The tree in plain Python arithmetic."""
    if tree[0] == "dim":
        return valuation[tree[1]]
    if tree[0] == "const":
        return tree[1]
    left, right = value_of(tree[1], valuation), value_of(tree[2], valuation)
    match tree[0]:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "max":
            return max(left, right)
        case "min":
            return min(left, right)
        case "//":
            return left // right
        case "%":
            return left % right
        case _:
            return -(-left // right)


def to_z3(tree: Tree) -> Any:
    """The tree as a z3 term; z3's division by a positive integer rounds down, as Python's does."""
    if tree[0] == "dim":
        return z3.Int(tree[1])
    if tree[0] == "const":
        return z3.IntVal(tree[1])
    left, right = to_z3(tree[1]), to_z3(tree[2])
    match tree[0]:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "max":
            return z3.If(left >= right, left, right)
        case "min":
            return z3.If(left <= right, left, right)
        case "//":
            return left / right
        case "%":
            return left % right
        case _:
            return -((-left) / right)
