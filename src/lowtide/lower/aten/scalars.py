"""Python text of the integers, floats and truth values that a graph computes with.

Integers are printed from their symbolic expressions, over the symbols' names. Floats and truth values are
printed by following the graph, one Python operator per node, so that they are rounded exactly as the graph says;
a simplified expression could be rounded otherwise.
"""

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import sympy
import torch
import torch.fx as fx

from lowtide.lower.joint import UnsupportedGraphError, size_code

SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)

_INFIX: Mapping[Callable[..., Any], str] = {
    operator.add: "+",
    operator.sub: "-",
    operator.mul: "*",
    operator.truediv: "/",
    operator.floordiv: "//",
    operator.mod: "%",
    operator.pow: "**",
    operator.eq: "==",
    operator.ne: "!=",
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
    operator.and_: "&",
    operator.or_: "|",
    operator.xor: "^",
}
_PREFIX: Mapping[Callable[..., Any], str] = {
    operator.neg: "-",
    operator.pos: "+",
    operator.not_: "not ",
    torch.sym_not: "not ",
}
_CALLS: Mapping[Callable[..., Any], str] = {
    torch.sym_float: "float",
    torch.sym_int: "int",
    torch.sym_max: "torch.sym_max",
    torch.sym_min: "torch.sym_min",
    torch.sym_ite: "torch.sym_ite",
    torch.sym_sum: "torch.sym_sum",
    round: "round",
    abs: "abs",
    **{getattr(math, name): f"math.{name}" for name in ("sqrt", "floor", "ceil", "trunc", "log2", "exp", "pow")},
}


def is_scalar(value: object) -> bool:
    """Tell whether a node's value is a number or a truth value, symbolic or not."""
    return isinstance(value, (*SYMBOLIC, int, float, bool, complex))


def symbol_expr(value: Any) -> sympy.Expr:
    """The sympy expression of an integer or a symbolic number."""
    return value.node.expr if isinstance(value, SYMBOLIC) else sympy.sympify(value)


class ScalarPrinter:
    """Prints the scalar nodes of one graph.

    Args:
        known: Text of placeholders that are floats or truth values which another graph has computed.
        argument_code: Prints the arguments of a scalar node.
    """

    def __init__(self, known: Mapping[str, str], argument_code: Callable[[Any], str]) -> None:
        self._texts: dict[str, str] = dict(known)
        self._argument_code = argument_code

    @property
    def texts(self) -> Mapping[str, str]:
        """The text of every scalar node printed so far, by name."""
        return self._texts

    def code(self, node: fx.Node) -> str:
        """The Python expression of a scalar node, in parentheses where it needs them.

        Raises:
            UnsupportedGraphError: If the node's function is not known here.
        """
        found = self._texts.get(node.name)
        if found is None:
            found = self._texts[node.name] = self._code(node)
        return found

    def _code(self, node: fx.Node) -> str:
        value = node.meta["val"]
        if isinstance(value, torch.SymInt):
            return number_code(value)
        if not isinstance(value, SYMBOLIC):
            return literal(value)
        if isinstance(value.node.expr, sympy.Symbol):
            return str(value.node.expr)
        target: Any = node.target
        arguments = [self._argument_code(argument) for argument in node.args]
        if target in _INFIX and len(arguments) == 2:
            return f"({arguments[0]} {_INFIX[target]} {arguments[1]})"
        if target in _PREFIX and len(arguments) == 1:
            return f"({_PREFIX[target]}{arguments[0]})"
        if target in _CALLS:
            return f"{_CALLS[target]}({', '.join(arguments)})"
        if node.op == "placeholder":
            return f"({size_code(value.node.expr)})"
        raise UnsupportedGraphError(
            "A number is computed by a function that lowtide cannot print.",
            found=f"{node.name} = {target}",
            where="an aten graph",
            fix="compute this number outside the compiled region.",
        )


def number_code(value: Any) -> str:
    """Print an integer, symbolic or not; in parentheses unless it is a name or a number."""
    text = size_code(symbol_expr(value))
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def literal(value: Any) -> str:
    """Print a number, a truth value, a string or None as Python."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    if isinstance(value, complex):
        return f"complex({literal(value.real)}, {literal(value.imag)})"
    return repr(value)
