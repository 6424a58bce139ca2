"""Proofs that open floors and maxima.

- A maximum equals one of its arguments: prove the claim with each in its place, knowing that this one is the largest.
  Where the maximum only helps (it has positive factors), one argument for which the claim holds is enough, and it may
  be another one on each part of the ranges.
- A floor: c*floor(x/c) = x - m with a new variable 0 <= m <= c-1. The claim d >= 0 becomes a claim on a multiple of d
  without the floor. As d is an integer, d > -1 is enough, and that absorbs most of what the new variable costs.
- Residues: with one or two variables below floors by constants, x = L*q + r for every remainder r makes all floors
  exact polynomials. Complete for linear floors, at L^variables cases.

Not handled: more than `RESIDUE_LIMIT` residue classes; denominators whose sign is not known.
"""

from collections.abc import Sequence
from itertools import product
from math import lcm

from lowtide.symbolic.atoms import FloorDiv, Max
from lowtide.symbolic.errors import UndefinedSizeError
from lowtide.symbolic.evaluate import Values
from lowtide.symbolic.interval import Box, bound_terms
from lowtide.symbolic.prove import Effort, middle_of, prove_nonnegative
from lowtide.symbolic.substitute import substitute_terms
from lowtide.symbolic.terms import (
    ONE,
    Atom,
    Terms,
    add_terms,
    atoms_of,
    constant_terms,
    dims_of,
    divide_monomial,
    evaluate_terms,
    is_constant,
    is_variable,
    multiply_terms,
    power_terms,
    subtract_terms,
    variable_atom,
)

RESIDUE_LIMIT = 64
# Up to this many residue classes are tried before floors are opened with new variables.
FEW_RESIDUES = 16
# How often in a row a box is cut so that each part has its own best argument of a maximum.
CUT_DEPTH = 6
DEPTH_LIMIT = 24
# Up to this many arguments of a maximum, what its largest argument exceeds is used as facts.
FACTS_LIMIT = 4


def prove_by_cases(terms: Terms, box: Box, facts: Sequence[Terms], effort: Effort) -> bool:
    """Prove that an integer polynomial over atoms is >= 0, opening its floors and maxima.

    Args:
        terms: The polynomial.
        box: Intervals of its atoms.
        facts: Polynomials that are >= 0.
        effort: What may be spent; changed.

    Guarantee: sound. Incomplete.
    """
    if not has_cases(terms):
        return False
    if _prove(terms, {ONE: 1}, box, facts, effort, 0):
        return True
    return FEW_RESIDUES < _residue_classes(terms) <= RESIDUE_LIMIT and _prove_by_residues(terms, box, facts, effort, 0)


def has_cases(terms: Terms) -> bool:
    """Say whether a floor or maximum occurs."""
    return any(not is_variable(atom) for monomial in terms for atom in monomial)


def _prove(terms: Terms, scale: Terms, box: Box, facts: Sequence[Terms], effort: Effort, depth: int) -> bool:
    """Prove d >= 0 for the integer d with terms == scale*d, scale > 0."""
    if effort.leaves <= 0 or depth > DEPTH_LIMIT:
        return False
    claim = subtract_terms(add_terms(terms, scale), {ONE: 1})
    if prove_nonnegative(claim, box, facts, effort) is not None:
        return True
    atom = _atom_to_open(terms, box)
    if isinstance(atom, FloorDiv) and _residue_classes(terms) <= FEW_RESIDUES and is_constant(scale):
        return _prove_by_residues(terms, box, facts, effort, depth)
    if isinstance(atom, Max):
        return _open_max(atom, terms, scale, box, facts, effort, depth)
    if isinstance(atom, FloorDiv):
        opened = open_floor(terms, atom, box)
        if opened is None:
            return False
        terms, factor, box, fact = opened
        return _prove(terms, multiply_terms(scale, factor), box, [*facts, *fact], effort, depth + 1)
    return False


def _atom_to_open(terms: Terms, box: Box) -> Atom | None:
    """Return the atom to open next: maxima that may hurt, then those that only help, then floors.

    Of several, one that no other contains. A maximum that only helps needs one good argument, and which one that is may
    depend on the argument that stands for another, so it comes later.
    """
    best: tuple[int, int, Atom] | None = None
    for atom in atoms_of(terms):
        if not is_variable(atom):
            rank = 0 if not isinstance(atom, Max) else 1 if only_helps(terms, atom, box) else 2
            best = max(best or (0, 0, ""), (rank, len(atom), atom))
    return None if best is None else best[2]


def _open_max(
    atom: Max, terms: Terms, scale: Terms, box: Box, facts: Sequence[Terms], effort: Effort, depth: int
) -> bool:
    cases: list[tuple[Terms, Terms]] = []
    for argument in atom.arguments:
        case = _choose_argument(terms, atom, argument)
        if case is None:
            return False
        cases.append((case, argument))
    if only_helps(terms, atom, box):
        # An argument that cancels most is most likely to do.
        ordered = sorted((case for case, _ in cases), key=len)
        if _one_is_enough(ordered, scale, box, facts, effort, depth + 1, CUT_DEPTH if effort.cuts else 0):
            return True
    if len(cases) > FACTS_LIMIT and only_helps(terms, atom, box):
        return False
    for case, argument in cases:
        largest: list[Terms] = []
        if len(cases) <= FACTS_LIMIT:
            largest = [subtract_terms(argument, other) for _, other in cases if other is not argument]
        if not _prove(case, scale, box, [*facts, *largest], effort, depth + 1):
            return False
    return True


def _one_is_enough(
    cases: list[Terms], scale: Terms, box: Box, facts: Sequence[Terms], effort: Effort, depth: int, cuts: int
) -> bool:
    """Prove that at every point of the box one of the cases is >= 0: the same one everywhere, or another per part."""
    for case in cases:
        if effort.leaves <= 0:
            return False
        if _prove(case, scale, box, facts, effort, depth):
            return True
    if not cuts or _all_fail_at_a_corner(cases, box, effort):
        return False
    variable = _variable_to_cut(cases, box)
    if variable is None:
        return False
    low, high = box[variable]
    if low is None:
        return False
    middle = 2 * abs(low) + 64 if high is None else middle_of(low, high)
    for interval in ((low, middle), (middle + 1, high)):
        part = box.only_variables()
        part[variable] = interval
        if not _one_is_enough(cases, scale, part, facts, effort, depth, cuts - 1):
            return False
    return True


def _all_fail_at_a_corner(cases: list[Terms], box: Box, effort: Effort) -> bool:
    """Say whether all cases are negative with all variables low, or with all high; such a corner is a suspect."""
    names = [name for name in box if is_variable(name)]
    for end in (0, 1):
        corner = Values({name: box[name][end] or box[name][0] or 0 for name in names})
        try:
            if all(evaluate_terms(case, corner) < 0 for case in cases):
                effort.suspects.append({name: corner[name] for name in names})
                return True
        except UndefinedSizeError:
            return False
    return False


def _variable_to_cut(cases: list[Terms], box: Box) -> Atom | None:
    """Return the variable whose ends have the largest ratio; an unbounded one first."""
    best: tuple[int, Atom] | None = None
    for name in sorted(set[str]().union(*(dims_of(case) for case in cases))):
        low, high = box[name]
        if high is None:
            return name
        ratio = (high - (low or 0)) * 16 // (abs(low or 0) + 1)
        if high != low and (best is None or ratio > best[0]):
            best = ratio, name
    return None if best is None else best[1]


def _choose_argument(terms: Terms, atom: Max, argument: Terms) -> Terms | None:
    """Put an argument in place of a maximum everywhere; None where that would divide by zero."""
    try:
        return substitute_terms(terms, {atom: argument})
    except ZeroDivisionError:
        return None


def only_helps(terms: Terms, atom: Atom, box: Box) -> bool:
    """Say whether the polynomial grows with an atom: its factors are >= 0 and it is in no other atom."""
    for monomial, coefficient in terms.items():
        for other in monomial:
            if other != atom and isinstance(other, FloorDiv | Max) and str(atom) in str(other):
                return False
        if atom in monomial:
            rest = divide_monomial(monomial, (atom,)) or ()
            lows = [box[other][0] for other in rest]
            if coefficient < 0 or any(low is None or low < 0 for low in lows):
                return False
    return True


def open_floor(terms: Terms, atom: FloorDiv, box: Box) -> tuple[Terms, Terms, Box, list[Terms]] | None:
    """Write a floor division with a new variable for its remainder.

    Returns:
        The polynomial times a positive factor without the atom (except inside other atoms), that factor, the box with
        the new variable, and the facts that bound it; None where the denominator is not known to be positive.
    """
    denominator = atom.denominator
    constant = atom.constant_denominator
    least, most = (constant, constant) if constant else bound_terms(denominator, box)
    if least is None or least < 1:
        return None
    remainder = variable_atom(f"({atom})%")
    wider = Box(box)
    wider[remainder] = (0, None if most is None else most - 1)
    above = subtract_terms(atom.numerator, {(remainder,): 1})
    degree = max(monomial.count(atom) for monomial in terms)
    total: Terms = {}
    for monomial, coefficient in terms.items():
        power = monomial.count(atom)
        rest = {tuple(other for other in monomial if other != atom): coefficient}
        piece = multiply_terms(power_terms(above, power), power_terms(denominator, degree - power))
        total = add_terms(total, multiply_terms(rest, piece))
    facts = [] if constant else [subtract_terms(subtract_terms(denominator, {ONE: 1}), {(remainder,): 1})]
    return total, power_terms(denominator, degree), wider, facts


def _residue_classes(terms: Terms) -> int:
    """Return how many cases `_prove_by_residues` has; more than the limit where it cannot be used."""
    period = _common_period(terms)
    variables = _variables_below_floors(terms)
    if period is None or period < 2 or not variables or len(variables) > 2:
        return RESIDUE_LIMIT + 1
    return period ** len(variables)


def _prove_by_residues(terms: Terms, box: Box, facts: Sequence[Terms], effort: Effort, depth: int) -> bool:
    """Prove that a polynomial is >= 0 for every remainder of the variables below its floors."""
    period = _common_period(terms) or 1
    variables = sorted(_variables_below_floors(terms))
    names = [variable_atom(name) for name in variables]
    for residues in product(range(period), repeat=len(names)):
        images: dict[Atom, Terms] = {}
        narrowed = box.only_variables()
        empty = False
        for name, residue in zip(names, residues, strict=True):
            low, high = box[name]
            quotient = variable_atom(f"({name})/{period}")
            images[name] = add_terms({(quotient,): period}, constant_terms(residue))
            least = None if low is None else -((residue - low) // period)
            most = None if high is None else (high - residue) // period
            empty = empty or (least is not None and most is not None and least > most)
            narrowed[quotient] = (least, most)
        if empty:
            continue
        try:
            case = substitute_terms(terms, images)
            known = [substitute_terms(fact, images) for fact in facts]
        except ZeroDivisionError:
            return False
        if not _prove(case, {ONE: 1}, narrowed, known, effort, depth + 1):
            return False
    return True


def _common_period(terms: Terms) -> int | None:
    """Return the least common multiple of all denominators, also nested ones; None if one is no integer."""
    period = 1
    for atom in atoms_of(terms):
        if isinstance(atom, FloorDiv):
            inner = _common_period(atom.numerator)
            if not atom.constant_denominator or inner is None:
                return None
            period = lcm(period, inner * atom.constant_denominator)
        elif isinstance(atom, Max):
            for argument in atom.arguments:
                inner = _common_period(argument)
                if inner is None:
                    return None
                period = lcm(period, inner)
    return period


def _variables_below_floors(terms: Terms) -> set[str]:
    found: set[str] = set()
    for atom in atoms_of(terms):
        if isinstance(atom, FloorDiv):
            found |= atom.dims
        elif isinstance(atom, Max):
            for argument in atom.arguments:
                found |= _variables_below_floors(argument)
    return found
