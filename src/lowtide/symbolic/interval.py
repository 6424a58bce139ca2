"""Intervals of atoms and polynomials: inclusive integer bounds, None where there is none.

`Box` knows an interval for every variable and derives those of floors and maxima. `lower_bound` combines what is
cheap: a sum of term intervals, and the same after every atom is shifted to the lower end of its interval (which keeps
terms of one atom together, so that s^2 - s is seen to be >= 0).
"""

from math import comb
from typing import TypeAlias

from lowtide.symbolic.atoms import FloorDiv, Max
from lowtide.symbolic.errors import MissingVariableError
from lowtide.symbolic.terms import ONE, Atom, Terms, atoms_of, is_variable, scale_terms

Interval: TypeAlias = tuple[int | None, int | None]


class Box(dict[Atom, Interval]):
    """Intervals of atoms: those of variables are given, the others are derived on first use and kept."""

    __slots__ = ()

    def __missing__(self, atom: Atom) -> Interval:
        """Derive the interval of a floor division or maximum.

        Raises:
            MissingVariableError: If a variable has no interval.
        """
        if isinstance(atom, FloorDiv):
            interval = _divide_intervals(bound_terms(atom.numerator, self), bound_terms(atom.denominator, self))
        elif isinstance(atom, Max):
            parts = [bound_terms(argument, self) for argument in atom.arguments]
            lows = [low for low, _ in parts if low is not None]
            highs = [high for _, high in parts if high is not None]
            interval = (max(lows) if lows else None, max(highs) if len(highs) == len(parts) else None)
        else:
            raise MissingVariableError(str(atom), (str(key) for key in self if is_variable(key)), "scope")
        self[atom] = interval
        return interval

    def only_variables(self) -> "Box":
        """Return a copy without derived intervals, to be changed."""
        return Box({atom: interval for atom, interval in self.items() if is_variable(atom)})


def bound_terms(terms: Terms, box: Box) -> Interval:
    """Return proved bounds of a polynomial over a box. Inclusive; not always the tightest."""
    high = lower_bound(scale_terms(terms, -1), box)
    return lower_bound(terms, box), None if high is None else -high


def lower_bound(terms: Terms, box: Box) -> int | None:
    """Return a proved lower bound of a polynomial over a box, or None."""
    simple = interval_of(terms, box)[0]
    shifted = shift_to_corner(terms, box)
    if shifted is None:
        return simple
    corner = corner_bound(*shifted)
    return simple if corner is None else corner if simple is None else max(simple, corner)


def interval_of(terms: Terms, box: Box) -> Interval:
    """Return the sum of the intervals of the terms."""
    low: int | None = 0
    high: int | None = 0
    for monomial, coefficient in terms.items():
        term: Interval = (coefficient, coefficient)
        for atom in monomial:
            term = multiply_intervals(term, box[atom])
        low = None if low is None or term[0] is None else low + term[0]
        high = None if high is None or term[1] is None else high + term[1]
        if low is None and high is None:
            break
    return low, high


def multiply_intervals(left: Interval, right: Interval) -> Interval:
    """Return the interval of products."""
    (a, b), (c, d) = left, right
    if a is not None and c is not None and a >= 0 and c >= 0:
        return a * c, 0 if b == 0 or d == 0 else None if b is None or d is None else b * d
    if a is not None and b is not None and c is not None and d is not None:
        corners = (a * c, a * d, b * c, b * d)
        return min(corners), max(corners)
    # One side is unbounded: a bound survives only where the signs of both factors are known.
    if a is not None and a >= 0 and d is not None and d <= 0:
        low, high = multiply_intervals(left, (-d, None if c is None else -c))
        return None if high is None else -high, None if low is None else -low
    if c is not None and c >= 0 and b is not None and b <= 0:
        return multiply_intervals(right, left)
    if b is not None and b <= 0 and d is not None and d <= 0:
        return multiply_intervals((-b, None if a is None else -a), (-d, None if c is None else -c))
    if a == 0 == b or c == 0 == d:
        return 0, 0
    return _multiply_mixed(left, right)


def _multiply_mixed(left: Interval, right: Interval) -> Interval:
    """Products where one interval is unbounded: bounded on a side only if every product there is finite."""
    if left[0] is not None and left[1] is not None:
        left, right = right, left
    a, b = left
    c, d = right
    if c is None or d is None:
        return None, None
    if a is not None:
        # x >= a without end, c <= y <= d: bounded from below unless y may be negative, from above unless positive.
        return None if c < 0 else min(a * c, a * d), None if d > 0 else max(a * c, a * d)
    if b is not None:
        return None if d > 0 else min(b * c, b * d), None if c < 0 else max(b * c, b * d)
    return None, None


def _divide_intervals(numerator: Interval, denominator: Interval) -> Interval:
    low, high = numerator
    least, most = denominator
    if most is not None and most < 0:
        return _divide_intervals(
            (None if high is None else -high, None if low is None else -low),
            (-most, None if least is None else -least),
        )
    if least is None or least < 1:
        return None, None
    if low is not None:
        # floor(n/d) shrinks towards 0, or towards -1, as d grows.
        low = low // least if low < 0 else 0 if most is None else low // most
    if high is not None:
        high = high // least if high >= 0 else -1 if most is None else high // most
    return low, high


def shift_to_corner(terms: Terms, box: Box) -> tuple[Terms, dict[Atom, int | None]] | None:
    """Rewrite a polynomial in distances from one end of each atom's interval.

    Returns:
        The polynomial in which each atom stands for its distance t >= 0 from its lower end (from its upper end where
        only that is finite), and the largest distance of each atom, None where unbounded. None where an atom has
        neither end.
    """
    widths: dict[Atom, int | None] = {}
    for atom in atoms_of(terms):
        low, high = box[atom]
        if low is not None:
            widths[atom] = None if high is None else high - low
            if low:
                terms = shift_atom(terms, atom, low, 1)
        elif high is not None:
            widths[atom] = None
            terms = shift_atom(terms, atom, high, -1)
        else:
            return None
    return terms, widths


def shift_atom(terms: Terms, atom: Atom, offset: int, sign: int) -> Terms:
    """Return the polynomial with `offset + sign*atom` in place of the atom (not inside other atoms)."""
    shifted: Terms = {}
    for monomial, coefficient in terms.items():
        if atom not in monomial:
            shifted[monomial] = shifted.get(monomial, 0) + coefficient
            continue
        power = monomial.count(atom)
        start = monomial.index(atom)
        scale = coefficient * sign**power
        for removed in range(power + 1):
            # The atom's copies are neighbours, so that cutting some out leaves the monomial sorted.
            key = monomial[:start] + monomial[start + removed :]
            shifted[key] = shifted.get(key, 0) + scale * comb(power, removed)
            scale *= offset * sign
    return {monomial: coefficient for monomial, coefficient in shifted.items() if coefficient}


def corner_bound(shifted: Terms, widths: dict[Atom, int | None]) -> int | None:
    """Return a lower bound of a shifted polynomial: its constant plus every negative term at its most negative."""
    low = shifted.get(ONE, 0)
    for monomial, coefficient in shifted.items():
        if coefficient < 0 and monomial:
            for atom in monomial:
                width = widths[atom]
                if width is None:
                    return None
                coefficient *= width
            low += coefficient
    return low
