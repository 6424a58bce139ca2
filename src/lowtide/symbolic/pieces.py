"""Proofs on pieces of the ranges: branch and bound in which the facts narrow every piece.

Each floor first becomes a variable q with the facts denominator*q <= numerator <= denominator*q + denominator - 1, so
that what is left has maxima only. Then, for every piece of the ranges, starting with the whole:

1. The facts narrow its ranges (`tighten.py`); where that leaves nothing, nothing is to be shown. Only facts count that
   share variables with the claim, or with such a fact.
2. Arguments of maxima that another argument exceeds all over the piece are dropped; a maximum of one is that argument.
3. The claim is proved on the piece by `prove.py`, or refuted at a corner. Else the piece is cut: where the largest
   argument of a maximum changes, and without maxima in the variable whose ends have the largest ratio.

Not handled: more than `PIECE_LIMIT` pieces; floors whose denominator is not known to be positive stay opaque.
"""

from collections.abc import Iterable, Sequence

from lowtide.symbolic.atoms import FloorDiv, Max
from lowtide.symbolic.errors import UndefinedSizeError
from lowtide.symbolic.evaluate import Values
from lowtide.symbolic.interval import Box, lower_bound
from lowtide.symbolic.maximum import maximum_terms
from lowtide.symbolic.probes import choose_high, choose_low
from lowtide.symbolic.prove import Effort, middle_of, prove_nonnegative
from lowtide.symbolic.substitute import substitute_terms
from lowtide.symbolic.terms import (
    ONE,
    Atom,
    Terms,
    atoms_of,
    dims_of,
    evaluate_terms,
    is_variable,
    multiply_terms,
    subtract_terms,
    variable_atom,
)
from lowtide.symbolic.tighten import tighten

PIECE_LIMIT = 64
# How many polynomials are tried on one piece.
LEAVES_OF_A_PIECE = 24


def prove_by_pieces(terms: Terms, box: Box, facts: Sequence[Terms], suspects: list[dict[Atom, int]]) -> bool:
    """Prove that an integer polynomial over atoms is >= 0 at every point of a box at which the facts hold.

    Args:
        terms: The polynomial.
        box: Intervals of its variables.
        facts: Polynomials that are >= 0.
        suspects: Receives corners at which the polynomial is negative.

    Guarantee: sound. Incomplete.
    Cost: at most `PIECE_LIMIT` pieces, on each `LEAVES_OF_A_PIECE` polynomials and a comparison for each pair of
        arguments of a maximum.
    """
    terms, box, facts = _name_floors(terms, box, facts)
    facts = _connected(terms, facts)
    pending = [(terms, box)]
    for _ in range(PIECE_LIMIT):
        if not pending:
            return True
        terms, piece = pending.pop()
        narrowed = tighten(piece, facts)
        if narrowed is None:
            continue
        try:
            terms = _drop_exceeded(terms, narrowed)
        except ZeroDivisionError:
            return False
        if prove_nonnegative(terms, narrowed, facts, Effort(LEAVES_OF_A_PIECE, 0, suspects)) is not None:
            continue
        if _is_refuted(terms, narrowed, facts, suspects):
            return False
        cut = _choose_cut(terms, narrowed, facts)
        if cut is None:
            return False
        variable, middle = cut
        low, high = narrowed[variable]
        for interval in ((middle + 1, high), (low, middle)):
            part = narrowed.only_variables()
            part[variable] = interval
            pending.append((terms, part))
    return not pending


def _name_floors(terms: Terms, box: Box, facts: Sequence[Terms]) -> tuple[Terms, Box, list[Terms]]:
    """Put a variable in place of every floor, those within others first; return also its range and its facts."""
    floors = sorted(_floors_in([terms, *facts]), key=lambda floor: (len(floor), floor))
    images: dict[Atom, Terms] = {}
    wider = box.only_variables()
    known: list[Terms] = []
    for floor in floors:
        numerator = substitute_terms(floor.numerator, images)
        denominator = substitute_terms(floor.denominator, images)
        least = lower_bound(denominator, wider)
        if least is None or least < 1:
            continue
        quotient = variable_atom(f"({floor})")
        images[floor] = {(quotient,): 1}
        wider[quotient] = box[floor]
        remainder = subtract_terms(numerator, multiply_terms(denominator, images[floor]))
        known += [remainder, subtract_terms(subtract_terms(denominator, {ONE: 1}), remainder)]
    return (
        substitute_terms(terms, images),
        wider,
        [*(substitute_terms(fact, images) for fact in facts), *known],
    )


def _connected(terms: Terms, facts: Iterable[Terms]) -> list[Terms]:
    """Return the facts that share variables with a polynomial, or with another such fact."""
    names = dims_of(terms)
    found: list[Terms] = []
    rest = list(facts)
    while near := [fact for fact in rest if dims_of(fact) & names]:
        found += near
        rest = [fact for fact in rest if not dims_of(fact) & names]
        names = names.union(*map(dims_of, near))
    return found


def _floors_in(polynomials: Sequence[Terms]) -> set[FloorDiv]:
    found: set[FloorDiv] = set()
    for terms in polynomials:
        for atom in atoms_of(terms):
            if isinstance(atom, FloorDiv):
                found |= {atom, *_floors_in([atom.numerator, atom.denominator])}
            elif isinstance(atom, Max):
                found |= _floors_in(atom.arguments)
    return found


def _drop_exceeded(terms: Terms, box: Box) -> Terms:
    """Drop the arguments of maxima that another argument exceeds all over the box."""
    while True:
        images: dict[Atom, Terms] = {}
        for atom in atoms_of(terms):
            if isinstance(atom, Max):
                kept = _not_exceeded(atom, box)
                if len(kept) < len(atom.arguments):
                    images[atom] = maximum_terms(kept)
        if not images:
            return terms
        terms = substitute_terms(terms, images)


def _not_exceeded(atom: Max, box: Box) -> list[Terms]:
    kept = list(atom.arguments)
    for argument in atom.arguments:
        for other in kept:
            if other is not argument:
                low = lower_bound(subtract_terms(other, argument), box)
                if low is not None and low >= 0:
                    kept.remove(argument)
                    break
    return kept


def _is_refuted(terms: Terms, box: Box, facts: Sequence[Terms], suspects: list[dict[Atom, int]]) -> bool:
    """Say whether the claim fails with all variables low, or with all high; such a corner is a suspect."""
    for corner in _corners(box):
        try:
            if evaluate_terms(terms, corner) < 0 and all(evaluate_terms(fact, corner) >= 0 for fact in facts):
                suspects.append(dict(corner))
                return True
        except UndefinedSizeError:
            continue
    return False


def _corners(box: Box) -> tuple[Values, Values]:
    """Return all variables low, and all high."""
    names = [name for name in box if is_variable(name)]
    low, high = (Values({name: choose(name, box[name]) for name in names}) for choose in (choose_low, choose_high))
    return low, high


def _choose_cut(terms: Terms, box: Box, facts: Sequence[Terms]) -> tuple[Atom, int] | None:
    """Return a variable and the largest value of it that belongs to the lower piece."""
    maxima = sorted((atom for atom in atoms_of(terms) if isinstance(atom, Max)), key=lambda found: (len(found), found))
    for atom in maxima:
        found = _cut_of_maximum(atom, box)
        if found is not None:
            return found
    names = {atom for polynomial in (terms, *facts) for atom in atoms_of(polynomial) if is_variable(atom)}
    return _cut_of_widest(names, box)


def _cut_of_maximum(atom: Max, box: Box) -> tuple[Atom, int] | None:
    """Return where the argument that is largest at the low ends stops to exceed the one largest at the high ends."""
    try:
        first, last = (
            max(atom.arguments, key=lambda argument, corner=corner: evaluate_terms(argument, corner))
            for corner in _corners(box)
        )
        difference = subtract_terms(first, last)
        names = [variable_atom(name) for name in sorted(dims_of(difference))]
        if len(names) != 1:
            return _cut_of_widest(names, box)
        name = names[0]
        below, above = choose_low(name, box[name]), choose_high(name, box[name])
        if evaluate_terms(difference, Values({name: above})) >= 0:
            return None
        while above - below > 1:
            middle = (below + above) // 2
            if evaluate_terms(difference, Values({name: middle})) >= 0:
                below = middle
            else:
                above = middle
    except UndefinedSizeError:
        return None
    return name, below


def _cut_of_widest(names: Iterable[Atom], box: Box) -> tuple[Atom, int] | None:
    """Return where to cut the variable whose ends have the largest ratio; an unbounded one first."""
    best: tuple[int, Atom, int] | None = None
    for name in sorted(names):
        low, high = box[name]
        if low is None:
            continue
        if high is None:
            return name, 2 * abs(low) + 64
        ratio = (high - low) * 16 // (abs(low) + 1)
        if high > low and (best is None or ratio > best[0]):
            best = ratio, name, middle_of(low, high)
    return None if best is None else best[1:]
