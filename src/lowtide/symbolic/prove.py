"""Proofs that a polynomial over atoms is >= 0 on a box.

Floors and maxima are opaque here, known by their intervals only; `cases.py` and `pieces.py` open them. The steps,
cheapest first:

1. LOWER_CORNER  measured from the lower ends of the ranges, no coefficient is negative.
2. INTERVAL      the negative terms at their most negative are outweighed by the constant.
3. BERNSTEIN     no Bernstein coefficient is negative, on the box or on parts of it into which it is cut.
4. CONSTRAINT    the same after subtracting multiples, by factors >= 0, of facts that are >= 0.

Not handled: products of two facts, facts that must be combined more than `FACT_DEPTH` at a time, and degrees above
`DEGREE_LIMIT`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd, isqrt

from lowtide.symbolic.bernstein import bernstein_coefficients
from lowtide.symbolic.comparison import Rule
from lowtide.symbolic.interval import Box, Interval, corner_bound, shift_to_corner
from lowtide.symbolic.terms import (
    Atom,
    Monomial,
    Terms,
    atoms_of,
    divide_monomial,
    scale_terms,
    sorted_monomials,
    subtract_terms,
)

CUT_LIMIT = 24
# Sizes are of low degree; floors by a variable, multiplied out one within the other, are of any.
DEGREE_LIMIT = 16
FACT_DEPTH = 3
FACT_TRIES = 48


@dataclass(slots=True)
class Effort:
    """What a proof may still spend, and what it met on the way.

    Attributes:
        leaves: How many polynomials may still be tried.
        cuts: How often a box may still be cut.
        suspects: Corners of boxes at which a polynomial was negative: candidates for a witness.
    """

    leaves: int
    cuts: int
    suspects: list[dict[Atom, int]] = field(default_factory=list[dict[Atom, int]])


def prove_nonnegative(terms: Terms, box: Box, facts: Sequence[Terms], effort: Effort) -> Rule | None:
    """Prove that a polynomial is >= 0 at every point of a box at which the facts hold.

    Args:
        terms: The polynomial; floors and maxima in it are opaque.
        box: Intervals of its atoms.
        facts: Polynomials that are >= 0.
        effort: What may be spent; changed.

    Returns:
        The rule that proved it, or None.

    Guarantee: sound. Incomplete.
    """
    rule = _prove_on_box(terms, box, effort)
    if rule is not None or not facts:
        return rule
    tries = [FACT_TRIES]
    return Rule.CONSTRAINT if _prove_with_facts(terms, box, facts, effort, FACT_DEPTH, tries) else None


def _prove_on_box(terms: Terms, box: Box, effort: Effort) -> Rule | None:
    effort.leaves -= 1
    if max(map(len, terms), default=0) > DEGREE_LIMIT:
        return None
    moved = shift_to_corner(terms, box)
    if moved is None:
        return None
    shifted, widths = moved
    if not shifted or min(shifted.values()) >= 0:
        return Rule.LOWER_CORNER
    low = corner_bound(shifted, widths)
    if low is not None and low >= 0:
        return Rule.INTERVAL
    answer = _bernstein_nonnegative(terms, box, shifted, widths, effort)
    if answer is None and effort.cuts > 0:
        answer = _prove_on_parts(terms, box, shifted, widths, effort)
    return Rule.BERNSTEIN if answer else None


def _bernstein_nonnegative(
    terms: Terms, box: Box, shifted: Terms, widths: dict[Atom, int | None], effort: Effort
) -> bool | None:
    """Say whether a polynomial is >= 0 on a box; None if its Bernstein coefficients leave that open."""
    found = bernstein_coefficients(shifted, widths)
    if found is None:
        return None
    coefficients = found[0]
    effort.leaves -= len(coefficients) // 8
    if min(coefficients.values(), default=0) >= 0:
        return True
    # A coefficient at a corner of the box is the value there.
    degrees = {atom: max(monomial.count(atom) for monomial in shifted) for atom in widths}
    for monomial, coefficient in coefficients.items():
        ends = {atom: monomial.count(atom) for atom in widths}
        if coefficient < 0 and all(
            not index or (index == degrees[atom] and widths[atom] is not None) for atom, index in ends.items()
        ):
            effort.suspects.append({atom: _end(box[atom], ends[atom]) for atom in atoms_of(terms)})
            return False
    return None


def _end(interval: Interval, upper: int) -> int:
    """Return the upper or the lower end of an interval, the other one where that is infinite."""
    low, high = interval
    if low is None:
        return high or 0
    return high if upper and high is not None else low


def _prove_on_parts(terms: Terms, box: Box, shifted: Terms, widths: dict[Atom, int | None], effort: Effort) -> bool:
    """Cut the box at integers until every part is proved, a part is refuted, or the limit is reached."""
    pending = [(box, shifted, widths)]
    for _ in range(CUT_LIMIT):
        if not pending:
            return True
        if effort.cuts <= 0:
            return False
        effort.cuts -= 1
        part, shifted, widths = pending.pop()
        atom = _atom_to_cut(part, shifted, widths)
        if atom is None:
            return False
        low, high = part[atom]
        if low is None:
            return False
        middle = 2 * abs(low) + 4 if high is None else middle_of(low, high)
        for interval in ((low, middle), (middle + 1, high)):
            # The intervals of floors and maxima stay those of the whole box: wider, so still sound.
            piece = Box(part)
            piece[atom] = interval
            moved = shift_to_corner(terms, piece)
            if moved is None:
                return False
            low_bound = corner_bound(*moved)
            if low_bound is not None and low_bound >= 0:
                continue
            answer = _bernstein_nonnegative(terms, piece, *moved, effort)
            if answer is False:
                return False
            if answer is None:
                pending.append((piece, *moved))
    return not pending


def _atom_to_cut(box: Box, shifted: Terms, widths: dict[Atom, int | None]) -> Atom | None:
    """Return the atom whose interval is to be cut: an unbounded one, else that with the largest ratio of its ends.

    Cutting an atom that occurs only linearly gains nothing where it is bounded, and is not done.
    """
    best: Atom | None = None
    best_ratio = 0
    for monomial, coefficient in shifted.items():
        for atom in monomial:
            width = widths[atom]
            if width is None:
                if coefficient < 0:
                    return atom
            elif width and monomial.count(atom) > 1:
                ratio = width * 16 // (abs(box[atom][0] or 0) + 1)
                if ratio > best_ratio or best is None:
                    best, best_ratio = atom, ratio
    return best


def middle_of(low: int, high: int) -> int:
    """Return where to cut: between in magnitude, so that small values are told apart first."""
    if low >= 0 and high > 4 * low + 4:
        return min(high - 1, max(low, isqrt((low + 1) * (high + 1)) - 1))
    return (low + high) // 2


def _prove_with_facts(
    terms: Terms, box: Box, facts: Sequence[Terms], effort: Effort, depth: int, tries: list[int]
) -> bool:
    """Cancel a term that may be negative with a fact that has it, times a factor >= 0, and prove what is left."""
    for monomial in sorted_monomials(terms):
        coefficient = terms[monomial]
        if coefficient >= 0 and _nonnegative(monomial, box):
            continue
        for fact in facts:
            for lead, size in fact.items():
                if size * coefficient <= 0 or not lead:
                    continue
                factor = divide_monomial(monomial, lead)
                if factor is None or not _nonnegative(factor, box):
                    continue
                if tries[0] <= 0 or effort.leaves <= 0:
                    return False
                tries[0] -= 1
                shared = gcd(coefficient, size)
                # times*terms - weight*factor*fact, in which the term is gone.
                weight = abs(coefficient) // shared
                scaled = scale_terms(terms, abs(size) // shared)
                product = {tuple(sorted(factor + other)): weight * value for other, value in fact.items()}
                rest = subtract_terms(scaled, product)
                if _prove_on_box(rest, box, effort) is not None:
                    return True
                if depth > 1 and _prove_with_facts(rest, box, facts, effort, depth - 1, tries):
                    return True
    return False


def _nonnegative(monomial: Monomial, box: Box) -> bool:
    for atom in monomial:
        low = box[atom][0]
        if low is None or low < 0:
            return False
    return True
