"""Sizes from sympy expressions, as torch's symbolic integers carry them.

Classes are recognised by name, so that torch's own functions are understood without importing torch: `FloorDiv`,
`CleanDiv`, `CeilDiv`, `Mod`, `PythonMod`, `ModularIndexing`, `Max`, `Min`, `PowByNatural`, `Identity`, and `CeilToInt`
or `FloorToInt` of a quotient of integers. What is no
integer polynomial over floors and maxima (Where, Piecewise, TruncToInt, true divisions) is handed to the caller, who
names a bounded variable that stands for it.
"""

# sympy ships no type stubs.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from collections.abc import Callable

import sympy

from lowtide.symbolic.expression import Expr, ceil_div, const, dim, floor_div, maximum, minimum, mod

POWER_LIMIT = 64


def from_sympy(expression: sympy.Basic | int, unknown: Callable[[sympy.Expr], str]) -> Expr:
    """Return the size that a sympy expression denotes.

    Args:
        expression: A sympy expression over integer symbols; the symbols' names become dimension variables.
        unknown: Called with each subexpression that has no exact form here; returns the name of the variable that
            stands for it. The caller bounds that variable in the scope and computes it at entry.

    Returns:
        The size. Exact: for all values of the symbols (with denominators that are not zero) both have the same value.

    Raises:
        TypeError: If `expression` is no sympy expression.
        ValueError: If `unknown` returns no name of a dimension variable.
    """
    if isinstance(expression, int):
        return const(expression)
    return _Converter(unknown).convert(expression)


class _Converter:
    def __init__(self, unknown: Callable[[sympy.Expr], str]) -> None:
        self.unknown = unknown
        self.known: dict[sympy.Basic, Expr] = {}

    def convert(self, expression: sympy.Basic) -> Expr:
        found = self.known.get(expression)
        if found is None:
            found = self.try_convert(expression)
            if found is None:
                if not isinstance(expression, sympy.Expr):
                    raise TypeError(f"a size is a sympy expression, not {type(expression).__name__}: {expression}")
                found = dim(self.unknown(expression))
            self.known[expression] = found
        return found

    def try_convert(self, expression: sympy.Basic) -> Expr | None:
        """Return the size, or None where the expression itself has no exact form."""
        if isinstance(expression, sympy.Integer):
            return const(int(expression))
        if isinstance(expression, sympy.Symbol):
            return dim(expression.name) if expression.name.isidentifier() else None
        name = type(expression).__name__
        arguments = expression.args
        if isinstance(expression, sympy.Add):
            return self.sum(arguments)
        if isinstance(expression, sympy.Mul):
            return self.product(arguments)
        if name in ("Pow", "PowByNatural"):
            return self.power(arguments[0], arguments[1])
        if name == "Identity" and len(arguments) == 1:
            return self.convert(arguments[0])
        if name in ("Max", "Min"):
            parts = [self.convert(argument) for argument in arguments]
            return (maximum if name == "Max" else minimum)(*parts)
        if name in ("floor", "ceiling"):
            return self.rounded(arguments[0], floor_div if name == "floor" else ceil_div)
        if name in ("FloorToInt", "CeilToInt") and type(arguments[0]).__name__ == "IntTrueDiv":
            # Division in double precision: exact for sizes below 2^53, the largest that torch's own code gets right.
            parts = [self.convert(argument) for argument in arguments[0].args]
            divide = floor_div if name == "FloorToInt" else ceil_div
            return None if parts[1] == 0 else divide(parts[0], parts[1])
        return self.division(name, arguments)

    def sum(self, arguments: tuple[sympy.Basic, ...]) -> Expr | None:
        total = const(0)
        for argument in arguments:
            if _is_fraction(argument):
                return None
            total = total + self.convert(argument)
        return total

    def product(self, arguments: tuple[sympy.Basic, ...]) -> Expr | None:
        if any(_is_fraction(argument) for argument in arguments):
            return None
        total = const(1)
        for argument in arguments:
            total = total * self.convert(argument)
        return total

    def power(self, base: sympy.Basic, exponent: sympy.Basic) -> Expr | None:
        if isinstance(exponent, sympy.Integer) and 0 <= int(exponent) <= POWER_LIMIT:
            return self.convert(base) ** int(exponent)
        return None

    def rounded(self, argument: sympy.Basic, divide: Callable[[Expr, Expr], Expr]) -> Expr | None:
        """Convert floor or ceiling of a quotient of integers."""
        if not isinstance(argument, sympy.Expr):
            return None
        numerator, denominator = sympy.fraction(sympy.together(argument))
        if _has_fraction(numerator) or _has_fraction(denominator):
            return None
        below = self.convert(denominator)
        return None if below == 0 else divide(self.convert(numerator), below)

    def division(self, name: str, arguments: tuple[sympy.Basic, ...]) -> Expr | None:
        if name not in ("FloorDiv", "CleanDiv", "CeilDiv", "Mod", "PythonMod", "ModularIndexing"):
            return None
        parts = [self.convert(argument) for argument in arguments]
        if any(divisor == 0 for divisor in parts[1:]):
            return None
        if name in ("FloorDiv", "CleanDiv"):
            return floor_div(parts[0], parts[1])
        if name == "CeilDiv":
            return ceil_div(parts[0], parts[1])
        if name == "ModularIndexing":
            return mod(floor_div(parts[0], parts[1]), parts[2])
        return mod(parts[0], parts[1])


def _is_fraction(expression: sympy.Basic) -> bool:
    """Say whether an argument of a sum or product is no integer polynomial: a rational number or a negative power."""
    if isinstance(expression, sympy.Rational):
        return not isinstance(expression, sympy.Integer)
    if isinstance(expression, sympy.Pow):
        return not (isinstance(expression.exp, sympy.Integer) and int(expression.exp) >= 0)
    return isinstance(expression, sympy.Mul) and any(_is_fraction(argument) for argument in expression.args)


def _has_fraction(expression: sympy.Basic) -> bool:
    """Say whether a polynomial part has one, not looking into functions (they are converted by themselves)."""
    if isinstance(expression, sympy.Add | sympy.Mul):
        return any(_has_fraction(argument) for argument in expression.args)
    return _is_fraction(expression) or isinstance(expression, sympy.Float)
