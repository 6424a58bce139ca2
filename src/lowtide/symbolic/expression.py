"""Sizes as expressions: immutable, hashable, in one normal form.

An `Expr` is a polynomial with integer coefficients over atoms: dimension variables, floor divisions and maxima
of expressions. `mod`, `ceil` and `min` are rewritten into them:

    a mod b = a - b*floor(a/b)      ceil(a/b) = -floor(-a/b)      min(a, b) = -max(-a, -b)

`==` is structural and total: it compares normal forms. Polynomials are equal exactly when they are the same
function. With floors and maxima equal functions may have different forms (floor((s+1)/4) + floor((s+3)/4) is
floor((s+1)/2)); `compare` decides those.

Division follows Python: floor division rounds towards minus infinity, and the sign of a remainder is the sign of
the divisor. Where a denominator is zero an expression has no value; evaluating it there raises.
"""

from keyword import iskeyword
from operator import index
from typing import Any, SupportsIndex, final

from lowtide.symbolic.atoms import RESERVED_NAMES
from lowtide.symbolic.divide import floor_div_terms
from lowtide.symbolic.maximum import maximum_terms
from lowtide.symbolic.terms import (
    ONE,
    Terms,
    add_terms,
    constant_terms,
    dims_of,
    is_constant,
    multiply_terms,
    power_terms,
    render_terms,
    scale_terms,
    subtract_terms,
    variable_atom,
)


@final
class Expr:
    """A size or a count as an expression over dimension variables.

    Build expressions with `dim`, `const`, `parse` and the operators; the constructor takes terms that are in normal
    form already.

    Attributes:
        terms: The polynomial (see `terms.py`). Never change it: expressions share it.
    """

    # Not a frozen dataclass: its constructor would cost twice as much, and sums are made by the million.
    __slots__ = ("_hash", "terms")
    terms: Terms
    _hash: int | None

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self._hash = None

    def __hash__(self) -> int:
        if self._hash is None:
            terms = self.terms
            self._hash = hash(terms.get(ONE, 0)) if is_constant(terms) else hash(frozenset(terms.items()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Expr):
            return self is other or self.terms == other.terms
        if isinstance(other, int):
            return is_constant(self.terms) and self.terms.get(ONE, 0) == other
        return NotImplemented

    def __bool__(self) -> bool:
        raise TypeError(
            f"an expression has no truth value: {self}. Use `compare`, `e.is_constant`, or `e == 0` (normal form)."
        )

    def __repr__(self) -> str:
        return f"Expr({render_terms(self.terms)!r})"

    def __str__(self) -> str:
        return render_terms(self.terms)

    def __reduce__(self) -> tuple[Any, ...]:
        return Expr, (self.terms,)

    def __add__(self, other: "Expr | int") -> "Expr":
        return Expr(add_terms(self.terms, terms_of(other)))

    def __radd__(self, other: int) -> "Expr":
        return Expr(add_terms(self.terms, terms_of(other)))

    def __sub__(self, other: "Expr | int") -> "Expr":
        return Expr(subtract_terms(self.terms, terms_of(other)))

    def __rsub__(self, other: int) -> "Expr":
        return Expr(subtract_terms(terms_of(other), self.terms))

    def __mul__(self, other: "Expr | int") -> "Expr":
        return Expr(multiply_terms(self.terms, terms_of(other)))

    def __rmul__(self, other: int) -> "Expr":
        return Expr(multiply_terms(self.terms, terms_of(other)))

    def __floordiv__(self, other: "Expr | int") -> "Expr":
        return floor_div(self, other)

    def __rfloordiv__(self, other: int) -> "Expr":
        return floor_div(other, self)

    def __mod__(self, other: "Expr | int") -> "Expr":
        return mod(self, other)

    def __rmod__(self, other: int) -> "Expr":
        return mod(other, self)

    def __pow__(self, exponent: int) -> "Expr":
        if exponent < 0:
            raise ValueError(f"an expression has no power {exponent}: exponents are integers >= 0")
        return Expr(power_terms(self.terms, exponent))

    def __neg__(self) -> "Expr":
        return Expr(scale_terms(self.terms, -1))

    def __pos__(self) -> "Expr":
        return self

    @property
    def dims(self) -> frozenset[str]:
        """Names of the dimension variables that occur, also inside floors and maxima."""
        return dims_of(self.terms)

    @property
    def is_constant(self) -> bool:
        """Whether the expression is one integer."""
        return is_constant(self.terms)

    @property
    def constant_value(self) -> int:
        """The integer that a constant expression is.

        Raises:
            ValueError: If the expression has variables.
        """
        if not is_constant(self.terms):
            raise ValueError(f"{self} is not a constant: evaluate it at a valuation of {', '.join(sorted(self.dims))}")
        return self.terms.get(ONE, 0)


def terms_of(value: Expr | int) -> Terms:
    """Return the polynomial of an expression or integer.

    Raises:
        TypeError: If it is neither; floats and foreign symbols are never converted silently.
    """
    if isinstance(value, Expr):
        return value.terms
    return constant_terms(integer_of(value))


def integer_of(value: SupportsIndex) -> int:
    """Return an integer as a Python int; numpy's are converted.

    Raises:
        TypeError: If it is none; floats and foreign symbols are never converted silently.
    """
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"a size is an Expr or an int, not {type(value).__name__}: {value!r}") from None


def as_expr(value: Expr | int) -> Expr:
    """Return an expression unchanged, an integer as an expression."""
    return value if isinstance(value, Expr) else Expr(terms_of(value))


def dim(name: str) -> Expr:
    """Return the expression that is one dimension variable.

    Args:
        name: A Python identifier that is no keyword and none of floor, ceil, mod, max, min.

    Raises:
        ValueError: If the name is not of that form.
    """
    if not name.isidentifier() or iskeyword(name) or name in RESERVED_NAMES:
        raise ValueError(f"{name!r} cannot name a dimension variable: use an identifier such as 'batch' or 's0'")
    return Expr({(variable_atom(name),): 1})


def const(value: int) -> Expr:
    """Return the expression that is one integer."""
    return Expr(constant_terms(integer_of(value)))


def floor_div(numerator: Expr | int, denominator: Expr | int) -> Expr:
    """Return floor(numerator / denominator), rounded as Python's `//`.

    Raises:
        ZeroDivisionError: If the denominator is the integer 0.
    """
    return Expr(floor_div_terms(terms_of(numerator), terms_of(denominator)))


def ceil_div(numerator: Expr | int, denominator: Expr | int) -> Expr:
    """Return ceil(numerator / denominator), as -floor(-numerator / denominator).

    For an integer denominator n > 0 it is floor((numerator + n - 1) / n), which nests better: ceil(ceil(s/2)/2) is
    ceil(s/4).
    """
    below = terms_of(denominator)
    if is_constant(below) and below.get(ONE, 0) > 0:
        return Expr(floor_div_terms(add_terms(terms_of(numerator), constant_terms(below[ONE] - 1)), below))
    return Expr(scale_terms(floor_div_terms(scale_terms(terms_of(numerator), -1), terms_of(denominator)), -1))


def mod(value: Expr | int, modulus: Expr | int) -> Expr:
    """Return value - modulus*floor(value / modulus), which has the sign of the modulus as Python's `%`."""
    below = terms_of(modulus)
    return Expr(subtract_terms(terms_of(value), multiply_terms(below, floor_div_terms(terms_of(value), below))))


def maximum(*values: Expr | int) -> Expr:
    """Return the largest of one or more expressions."""
    return Expr(maximum_terms([terms_of(value) for value in values]))


def minimum(*values: Expr | int) -> Expr:
    """Return the smallest of one or more expressions, as -max of the negated ones."""
    return Expr(scale_terms(maximum_terms([scale_terms(terms_of(value), -1) for value in values]), -1))
