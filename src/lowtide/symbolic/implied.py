"""Drop constraints that follow from the others: guards of a foreign program repeat each other in many forms."""

from collections.abc import Iterable, Mapping

from lowtide.symbolic.constraint import AtMost
from lowtide.symbolic.decide import compare
from lowtide.symbolic.scope import Scope


def drop_implied(ranges: Mapping[str, tuple[int, int | None]], constraints: Iterable[AtMost]) -> list[AtMost]:
    """Return constraints that, with the ranges, imply all those given.

    Args:
        ranges: Inclusive bounds of every variable.
        constraints: Relations over these variables, in any order.

    Returns:
        Some of the constraints, the simplest first; the same whatever the order given.

    Raises:
        ScopeError: If the constraints are seen to contradict each other or the ranges.
        MissingVariableError: If a constraint speaks of a variable without a range.

    Guarantee: sound: what is dropped was proved from what is kept. Incomplete: more could be kept than needed.
    Cost: for each constraint the derivation of a scope of those kept so far, and a comparison in it.
    """
    kept: list[AtMost] = []
    for constraint in sorted(constraints, key=_simplicity):
        if not compare(constraint.left, constraint.right, Scope(ranges, kept)).is_at_most:
            kept.append(constraint)
    return kept


def _simplicity(constraint: AtMost) -> tuple[int, int, str]:
    terms = (constraint.right - constraint.left).terms
    return max(map(len, terms), default=0), len(terms), str(constraint)
