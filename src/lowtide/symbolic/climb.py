"""Search for a valuation at which a polynomial is positive, one variable after another.

Corners miss windows in the middle of a range, such as the lengths at which a padded quadratic exceeds a constant. Each
round tries, for every variable, values at all magnitudes and the neighbours of the best so far, and keeps the best. A
heuristic: finding nothing means nothing.
"""

from collections.abc import Iterator

from lowtide.symbolic.errors import UndefinedSizeError
from lowtide.symbolic.evaluate import Values
from lowtide.symbolic.interval import Interval
from lowtide.symbolic.relations import Relations
from lowtide.symbolic.terms import Atom, Terms, evaluate_terms, is_variable

ROUNDS = 3
MAGNITUDES = 31


def climb(terms: Terms, relations: Relations, start: Values) -> Values | None:
    """Return values at which the polynomial is positive and the facts hold, or None.

    Args:
        terms: The polynomial, over variables that are left.
        relations: The relations of the scope.
        start: Values of all variables that are left.

    Returns:
        Values of the variables that are left and of the replaced ones. The caller checks them against the constraints.
    """
    box = relations.box
    point: dict[Atom, int] = {name: start[name] for name in box if is_variable(name)}
    moving = sorted(name for name in point if any(name == atom or _inside(name, atom) for m in terms for atom in m))
    best = _value(terms, relations, point)
    for _ in range(ROUNDS):
        before = best
        for name in moving:
            for candidate in _candidates(point[name], box[name]):
                trial = {**point, name: candidate}
                value = _value(terms, relations, trial)
                if value is not None and (best is None or value > best):
                    best, point = value, trial
            if best is not None and best > 0:
                found = Values(point)
                return found if relations.complete(found) else None
        if best == before:
            break
    return None


def _inside(name: Atom, atom: Atom) -> bool:
    return not is_variable(atom) and name in atom


def _value(terms: Terms, relations: Relations, point: dict[Atom, int]) -> int | None:
    values = Values(point)
    try:
        if any(evaluate_terms(fact, values) < 0 for fact in relations.facts):
            return None
        return evaluate_terms(terms, values)
    except UndefinedSizeError:
        return None


def _candidates(current: int, interval: Interval) -> Iterator[int]:
    low, high = interval
    base = current if low is None else low
    for step in (-2, -1, 1, 2, *(2**power for power in range(2, MAGNITUDES))):
        for value in (current + step, base + step - 1):
            if (low is None or value >= low) and (high is None or value <= high):
                yield value
    for end in interval:
        if end is not None:
            yield end
