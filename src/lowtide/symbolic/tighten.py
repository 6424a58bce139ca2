"""Narrow the ranges of variables by facts: polynomials known to be >= 0.

For every term c*x*k of a fact, with k > 0 over the box and the rest of the fact at most R, c*x*k >= -R bounds x on one
side. A few rounds reach what chains of such facts imply; stopping early only leaves ranges wider.
"""

from collections.abc import Iterable

from lowtide.symbolic.interval import Box, Interval, interval_of, multiply_intervals
from lowtide.symbolic.terms import Atom, Monomial, Terms, is_variable

ROUNDS = 4
# Bounds beyond this are not worth having: facts that contradict each other, such as x >= 2 and x >= x^2, square them
# each time.
BOUND_LIMIT = 2**64


def tighten(box: Box, facts: Iterable[Terms]) -> Box | None:
    """Return the box narrowed by the facts, or None where no integer is left for some variable.

    Args:
        box: Inclusive ranges of the variables.
        facts: Polynomials that are >= 0.

    Returns:
        A new box. It contains every point of the old one at which the facts hold.

    Guarantee: sound; not the tightest.
    Cost: `ROUNDS` times one interval per term of a fact, variable of that term, and change.
    """
    facts = list(facts)
    box = box.only_variables()
    for _ in range(ROUNDS):
        changed = False
        for fact in facts:
            for monomial in fact:
                for atom in set(monomial):
                    if is_variable(atom) and monomial.count(atom) == 1:
                        low, high = _narrow(fact, monomial, atom, box)
                        old_low, old_high = box[atom]
                        if low is None or low > BOUND_LIMIT or (old_low is not None and old_low >= low):
                            low = old_low
                        if high is None or high < -BOUND_LIMIT or (old_high is not None and old_high <= high):
                            high = old_high
                        if low is not None and high is not None and low > high:
                            return None
                        if (low, high) != (old_low, old_high):
                            changed = True
                            box = box.only_variables()
                            box[atom] = (low, high)
        if not changed:
            break
    return box


def _narrow(fact: Terms, monomial: Monomial, variable: Atom, box: Box) -> Interval:
    """Return the bounds of a variable that one term of a fact implies."""
    factor: Interval = (1, 1)
    for atom in monomial:
        if atom != variable:
            factor = multiply_intervals(factor, box[atom])
    least, most = factor
    if least is None or least < 1:
        return None, None
    rest = interval_of({other: value for other, value in fact.items() if other != monomial}, box)[1]
    if rest is None:
        return None, None
    coefficient = fact[monomial]
    if coefficient > 0:
        # coefficient*x*k >= -rest: where -rest > 0 the largest k allows the smallest x, else the smallest k does.
        scale = least if rest >= 0 else most
        return (None if scale is None else -(rest // (coefficient * scale)), None)
    scale = least if rest >= 0 else most
    return None, None if scale is None else rest // (-coefficient * scale)
