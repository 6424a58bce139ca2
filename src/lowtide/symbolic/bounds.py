"""Proved bounds of an expression over a scope."""

from lowtide.symbolic.atoms import FloorDiv, Max
from lowtide.symbolic.bernstein import bernstein_coefficients
from lowtide.symbolic.cases import only_helps, open_floor
from lowtide.symbolic.expression import Expr
from lowtide.symbolic.interval import Box, Interval, lower_bound, shift_to_corner
from lowtide.symbolic.relations import Relations
from lowtide.symbolic.scope import Scope
from lowtide.symbolic.substitute import substitute_terms
from lowtide.symbolic.terms import (
    ONE,
    Monomial,
    Terms,
    atoms_of,
    divide_monomial,
    is_constant,
    scale_terms,
    subtract_terms,
)

OPEN_LIMIT = 6
# How many combinations of arguments of maxima are looked at.
CASE_LIMIT = 16


def bounds(expression: Expr, scope: Scope) -> Interval:
    """Return the smallest and largest value of an expression, as far as proved.

    Args:
        expression: Any expression over variables of the scope.
        scope: The facts assumed.

    Returns:
        Inclusive bounds (low, high), each None where none was found. Every admitted valuation at which the
        expression has a value lies between them; they need not be reached.

    Raises:
        MissingVariableError: If the scope does not know a variable.

    Guarantee: low is a lower bound and high an upper bound, in exact arithmetic.

    Example:
        >>> from lowtide.symbolic import Scope, bounds, parse
        >>> bounds(parse("seq - floor(seq/2)"), Scope({"seq": (1, 10)}))
        (1, 5)
    """
    relations = scope.relations
    try:
        terms = substitute_terms(expression.terms, relations.replacements)
    except ZeroDivisionError:
        return None, None  # it has a value nowhere
    high = _lower(scale_terms(terms, -1), relations)
    return _lower(terms, relations), None if high is None else -high


def _lower(terms: Terms, relations: Relations) -> int | None:
    best = _larger(_lower_on_box(terms, relations.box), _lower_by_cases(terms, relations.box, CASE_LIMIT))
    for fact in relations.facts:
        for lead, size in fact.items():
            for monomial, coefficient in terms.items():
                # terms = (terms - times*factor*fact) + times*factor*fact, and the second part is >= 0.
                if lead and size < 0 and coefficient < 0 and coefficient % size == 0:
                    factor = divide_monomial(monomial, lead)
                    if factor is not None and _nonnegative(factor, relations.box):
                        times = coefficient // size
                        scaled = {tuple(sorted(factor + other)): times * value for other, value in fact.items()}
                        best = _larger(best, _lower_on_box(subtract_terms(terms, scaled), relations.box))
    return best


def _lower_by_cases(terms: Terms, box: Box, limit: int) -> int | None:
    """Put each argument in place of a maximum: one of them is its value, and where it only helps any one will do."""
    maxima = [atom for atom in atoms_of(terms) if isinstance(atom, Max) and len(atom.arguments) <= limit]
    if not maxima:
        return None
    atom = max(maxima, key=lambda found: (len(found), found))
    lows: list[int | None] = []
    for argument in atom.arguments:
        try:
            case = substitute_terms(terms, {atom: argument})
        except ZeroDivisionError:
            return None
        lows.append(_larger(_lower_on_box(case, box), _lower_by_cases(case, box, limit // len(atom.arguments))))
    known = [low for low in lows if low is not None]
    if only_helps(terms, atom, box):
        return max(known, default=None)
    return min(known) if len(known) == len(lows) else None


def _lower_on_box(terms: Terms, box: Box) -> int | None:
    best = _larger(lower_bound(terms, box), _bernstein_bound(terms, box))
    scale = 1
    for _ in range(OPEN_LIMIT):
        floors = [atom for atom in atoms_of(terms) if isinstance(atom, FloorDiv) and atom.constant_denominator]
        if not floors:
            break
        opened = open_floor(terms, max(floors, key=len), box)
        if opened is None or not is_constant(opened[1]):
            break
        terms, factor, box, _ = opened
        scale *= factor[ONE]
        for bound in (lower_bound(terms, box), _bernstein_bound(terms, box)):
            if bound is not None:
                best = _larger(best, -(-bound // scale))
    return best


def _bernstein_bound(terms: Terms, box: Box) -> int | None:
    moved = shift_to_corner(terms, box)
    found = None if moved is None else bernstein_coefficients(*moved)
    if moved is None or found is None:
        return None
    coefficients, scale = found
    widths = moved[1]
    low = None
    count = 1
    degrees = {atom: max(monomial.count(atom) for monomial in moved[0]) for atom in atoms_of(moved[0])}
    for atom, degree in degrees.items():
        count *= degree + 1 if widths[atom] is not None else 1
    bounded = 0
    for monomial, coefficient in coefficients.items():
        if any(widths[atom] is None for atom in monomial):
            if coefficient < 0:
                return None
        else:
            bounded += 1
            low = coefficient if low is None else min(low, coefficient)
    if low is None or bounded < count:
        low = min(low or 0, 0)
    return -(-low // scale)


def _larger(left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return right if left is None else left
    return max(left, right)


def _nonnegative(monomial: Monomial, box: Box) -> bool:
    lows = [box[atom][0] for atom in monomial]
    return all(low is not None and low >= 0 for low in lows)
