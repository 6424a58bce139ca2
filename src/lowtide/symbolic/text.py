"""Expressions as text: the canonical form that `parse` reads back, and Python source.

The canonical form sorts terms by degree and name: `12*s0^2 + 4*floor(s0/2) + max(s0, 8)`.
"""

from lowtide.symbolic.atoms import FloorDiv, Max
from lowtide.symbolic.expression import Expr
from lowtide.symbolic.terms import Atom, Terms, render_terms, sorted_monomials


def render(expression: Expr) -> str:
    """Return the canonical text; `parse(render(e)) == e`, and equal texts mean equal expressions."""
    return render_terms(expression.terms)


def render_python(expression: Expr) -> str:
    """Return Python source with the value of the expression, over integer variables of the same names.

    Uses only `+ - * //` and `max`, so it is exact for Python integers. A denominator of zero raises
    ZeroDivisionError when the source runs.

    Example:
        >>> from lowtide.symbolic import parse
        >>> render_python(parse("3*s^2 - floor(s/2)"))
        '3*s*s - s//2'
    """
    return _python_sum(expression.terms)


def _python_sum(terms: Terms) -> str:
    if not terms:
        return "0"
    source = ""
    for monomial in sorted_monomials(terms):
        coefficient = terms[monomial]
        magnitude = abs(coefficient)
        alone = magnitude == 1 and len(monomial) == 1
        factors = [_python_atom(atom, alone) for atom in monomial]
        if magnitude != 1 or not monomial:
            factors.insert(0, str(magnitude))
        sign = (" - " if coefficient < 0 else " + ") if source else ("-" if coefficient < 0 else "")
        if alone and not source and coefficient < 0 and isinstance(monomial[0], FloorDiv):
            # -a//b would be (-a)//b.
            factors[0] = f"({factors[0]})"
        source += sign + "*".join(factors)
    return source


def _python_atom(atom: Atom, alone: bool) -> str:
    if isinstance(atom, FloorDiv):
        source = f"{_python_operand(atom.numerator)}//{_python_operand(atom.denominator)}"
        return source if alone else f"({source})"
    if isinstance(atom, Max):
        return f"max({', '.join(_python_sum(argument) for argument in atom.arguments)})"
    return str(atom)


def _python_operand(terms: Terms) -> str:
    source = _python_sum(terms)
    return source if source.isidentifier() or source.isdecimal() else f"({source})"
