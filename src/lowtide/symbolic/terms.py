"""Polynomials as plain dictionaries: the lowest layer of symbolic sizes.

A monomial is a sorted tuple of atoms with repetition, `("batch", "seq", "seq")` for batch*seq^2, and `()`
for 1. A polynomial is a dictionary from monomials to non-zero integers. Every function here takes and
returns such dictionaries, never changes its arguments, and keeps the invariant. An atom is a string (see
`atoms.py`), so that hashing, comparing and sorting run at the speed of the interpreter's own strings:
schedulers do millions of these operations.

Monomials are ordered by degree, then as tuples. The order is compatible with multiplication, which makes
division with remainder (`divide.py`) unique.
"""

from collections.abc import Iterable, Mapping
from sys import intern
from typing import TypeAlias

# A variable is its name as a plain interned string; a floor division or maximum is a `Compound`.
Atom: TypeAlias = str
Monomial: TypeAlias = tuple[Atom, ...]
Terms: TypeAlias = dict[Monomial, int]

ONE: Monomial = ()


class Compound(str):
    """An atom made of polynomials. Its canonical text is its identity; the subclasses are in `atoms.py`."""

    __slots__ = ()

    @property
    def dims(self) -> frozenset[str]:
        """Names of the dimension variables that occur in the atom."""
        raise NotImplementedError


def variable_atom(name: str) -> Atom:
    """Return the atom of a dimension variable.

    Interned, so that dictionaries find it by identity. Variables that the library makes up for itself have names that
    are no identifiers, so they never meet a variable of the caller's.
    """
    return intern(name)


def is_variable(atom: Atom) -> bool:
    """Say whether an atom is a dimension variable."""
    return not isinstance(atom, Compound)


def constant_terms(value: int) -> Terms:
    """Return the polynomial that is one integer."""
    return {ONE: value} if value else {}


def add_terms(left: Terms, right: Terms) -> Terms:
    """Return left + right. Cost: O(terms)."""
    if len(left) < len(right):
        left, right = right, left
    total = left.copy()
    for monomial, coefficient in right.items():
        value = total.get(monomial, 0) + coefficient
        if value:
            total[monomial] = value
        else:
            del total[monomial]
    return total


def subtract_terms(left: Terms, right: Terms) -> Terms:
    """Return left - right. Cost: O(terms)."""
    total = left.copy()
    for monomial, coefficient in right.items():
        value = total.get(monomial, 0) - coefficient
        if value:
            total[monomial] = value
        else:
            del total[monomial]
    return total


def scale_terms(terms: Terms, factor: int) -> Terms:
    """Return factor * terms. Cost: O(terms)."""
    if factor == 1:
        return terms
    if not factor:
        return {}
    return {monomial: factor * coefficient for monomial, coefficient in terms.items()}


def multiply_terms(left: Terms, right: Terms) -> Terms:
    """Return left * right. Cost: O(terms of left * terms of right)."""
    if len(left) == 1 and ONE in left:
        return scale_terms(right, left[ONE])
    if len(right) == 1 and ONE in right:
        return scale_terms(left, right[ONE])
    total: Terms = {}
    for monomial, coefficient in left.items():
        for other, factor in right.items():
            product = tuple(sorted(monomial + other))
            value = total.get(product, 0) + coefficient * factor
            if value:
                total[product] = value
            else:
                del total[product]
    return total


def power_terms(terms: Terms, exponent: int) -> Terms:
    """Return terms^exponent for an exponent >= 0."""
    result: Terms = {ONE: 1}
    for _ in range(exponent):
        result = multiply_terms(result, terms)
    return result


def sum_terms(parts: Iterable[Terms]) -> Terms:
    """Return the sum of many polynomials in one pass."""
    total: Terms = {}
    for part in parts:
        for monomial, coefficient in part.items():
            total[monomial] = total.get(monomial, 0) + coefficient
    return {monomial: coefficient for monomial, coefficient in total.items() if coefficient}


def is_constant(terms: Terms) -> bool:
    """Say whether the polynomial is one integer."""
    return not terms or (len(terms) == 1 and ONE in terms)


def monomial_key(monomial: Monomial) -> tuple[int, Monomial]:
    """Sort key of the monomial order: degree first, then the atoms."""
    return len(monomial), monomial


def leading_monomial(terms: Terms) -> Monomial:
    """Return the largest monomial of a polynomial that is not zero."""
    return max(terms, key=monomial_key)


def divide_monomial(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """Return monomial / divisor, or None where it is no monomial."""
    rest = list(monomial)
    for atom in divisor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def atoms_of(terms: Terms) -> set[Atom]:
    """Return the atoms that occur in the polynomial itself, not those inside other atoms."""
    return {atom for monomial in terms for atom in monomial}


def dims_of(terms: Terms) -> frozenset[str]:
    """Return the names of the dimension variables that occur anywhere, also inside other atoms."""
    names = set[str]().union(*terms)
    for atom in [name for name in names if isinstance(name, Compound)]:
        names.remove(atom)
        names |= atom.dims
    return frozenset(names)


def mentions(terms: Terms, variable: Atom) -> bool:
    """Say whether a dimension variable occurs anywhere, also inside other atoms."""
    return any(
        atom == variable or (isinstance(atom, Compound) and variable in atom.dims)
        for monomial in terms
        for atom in monomial
    )


def evaluate_terms(terms: Terms, values: Mapping[Atom, int]) -> int:
    """Return the value where every atom has the given value. Exact."""
    total = 0
    for monomial, coefficient in terms.items():
        for atom in monomial:
            coefficient *= values[atom]
        total += coefficient
    return total


def sorted_monomials(terms: Terms) -> list[Monomial]:
    """Return the monomials in the order in which they are printed: highest degree first, the constant last."""
    return sorted(terms, key=_print_key)


def _print_key(monomial: Monomial) -> tuple[int, bool, Monomial]:
    # Plain variables come before floors and maxima, whose texts have parentheses.
    return -len(monomial), any("(" in atom for atom in monomial), monomial


def render_monomial(monomial: Monomial) -> str:
    """Return the text of a monomial of degree >= 1, such as `batch*seq^2`."""
    factors: list[str] = []
    start = 0
    while start < len(monomial):
        atom = monomial[start]
        stop = start + 1
        while stop < len(monomial) and monomial[stop] == atom:
            stop += 1
        factors.append(str(atom) if stop - start == 1 else f"{atom}^{stop - start}")
        start = stop
    return "*".join(factors)


def render_terms(terms: Terms) -> str:
    """Return the canonical text of a polynomial, such as `12*seq^2 - seq + 8`; equal texts mean equal polynomials."""
    if not terms:
        return "0"
    pieces: list[str] = []
    for monomial in sorted_monomials(terms):
        coefficient = terms[monomial]
        magnitude = abs(coefficient)
        if not monomial:
            body = str(magnitude)
        elif magnitude == 1:
            body = render_monomial(monomial)
        else:
            body = f"{magnitude}*{render_monomial(monomial)}"
        if pieces:
            pieces.append(f" - {body}" if coefficient < 0 else f" + {body}")
        else:
            pieces.append(f"-{body}" if coefficient < 0 else body)
    return "".join(pieces)
