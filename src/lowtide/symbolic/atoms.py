"""The atoms that are not variables: floor division and maximum.

Each is its own canonical text with the parts beside it. Build floor divisions and maxima through
`divide.py` and `maximum.py` only: they bring the parts into normal form first, so that the text is unique.
"""

from typing import Any, Self

from lowtide.symbolic.terms import Compound, Terms, dims_of, is_constant, render_terms

# Names that the text form reads as functions.
RESERVED_NAMES = frozenset({"floor", "ceil", "mod", "max", "min"})


class FloorDiv(Compound):
    """floor(numerator / denominator), rounded towards minus infinity as Python's `//`."""

    __slots__ = ("_dims", "denominator", "numerator")
    numerator: Terms
    denominator: Terms
    _dims: frozenset[str]

    def __new__(cls, numerator: Terms, denominator: Terms) -> Self:
        """Make the atom from parts in normal form."""
        above, below = render_terms(numerator), render_terms(denominator)
        if len(numerator) > 1:
            above = f"({above})"
        if not is_constant(denominator) and not _is_single_name(denominator):
            below = f"({below})"
        self = super().__new__(cls, f"floor({above}/{below})")
        self.numerator = numerator
        self.denominator = denominator
        self._dims = dims_of(numerator) | dims_of(denominator)
        return self

    @property
    def dims(self) -> frozenset[str]:
        """Names of the variables in both parts."""
        return self._dims

    @property
    def constant_denominator(self) -> int:
        """The denominator where it is an integer (then it is > 1), else 0."""
        return self.denominator.get((), 0) if is_constant(self.denominator) else 0

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the parts."""
        return FloorDiv, (self.numerator, self.denominator)


class Max(Compound):
    """The largest of two or more polynomials."""

    __slots__ = ("_dims", "arguments")
    arguments: tuple[Terms, ...]
    _dims: frozenset[str]

    def __new__(cls, arguments: tuple[Terms, ...]) -> Self:
        """Make the atom from sorted arguments in normal form."""
        self = super().__new__(cls, f"max({', '.join(render_terms(argument) for argument in arguments)})")
        self.arguments = arguments
        self._dims = frozenset[str]().union(*(dims_of(argument) for argument in arguments))
        return self

    @property
    def dims(self) -> frozenset[str]:
        """Names of the variables in all arguments."""
        return self._dims

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the arguments."""
        return Max, (self.arguments,)


def _is_single_name(terms: Terms) -> bool:
    return len(terms) == 1 and all(len(monomial) == 1 and value == 1 for monomial, value in terms.items())
