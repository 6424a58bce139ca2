"""Find valuations that a scope admits: choose variables one after another, narrowing the others each time."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from lowtide.symbolic.evaluate import Values
from lowtide.symbolic.interval import Interval
from lowtide.symbolic.relations import Relations
from lowtide.symbolic.terms import Atom, is_variable, mentions
from lowtide.symbolic.tighten import tighten

Chooser: TypeAlias = Callable[[Atom, Interval], int]


def assign(relations: Relations, choose: Chooser, first: Sequence[Atom] = ()) -> Values | None:
    """Return values of all variables, each chosen from the range that the earlier choices leave.

    The facts narrow ranges only as far as `tighten` sees, so the caller checks the result against the constraints.

    Args:
        relations: The relations of the scope.
        choose: Picks an integer from the inclusive range of a variable.
        first: Variables to choose before the others.

    Returns:
        Values of the variables that are left and of the replaced ones, or None where a range became empty or
        a replaced variable has no value.
    """
    box = relations.box.only_variables()
    order: Iterable[Atom] = [*first, *(name for name in box if is_variable(name) and name not in first)]
    values = Values()
    for variable in order:
        value = choose(variable, box[variable])
        values[variable] = value
        box[variable] = (value, value)
        touched = [fact for fact in relations.facts if mentions(fact, variable)]
        if touched:
            narrowed = tighten(box, touched)
            if narrowed is None:
                return None
            box = narrowed
    return values if relations.complete(values) else None
