"""Scopes: the dimension variables of a program with the facts known about them."""

from collections.abc import Iterable, Mapping
from random import Random
from types import MappingProxyType
from typing import Any, final

from lowtide.symbolic.assign import assign
from lowtide.symbolic.comparison import Comparison
from lowtide.symbolic.constraint import Constraint, Divisible, Equal
from lowtide.symbolic.errors import MissingVariableError, ScopeError, UndefinedSizeError
from lowtide.symbolic.evaluate import Values
from lowtide.symbolic.expression import dim
from lowtide.symbolic.interval import Interval
from lowtide.symbolic.probes import Probes
from lowtide.symbolic.relations import Relations, derive_relations
from lowtide.symbolic.terms import Monomial, evaluate_terms, is_variable, variable_atom

SAMPLE_TRIES = 200
# How far above its lower end a sample of an unbounded variable may lie, as a power of two.
SAMPLE_BITS = 14


@final
class Scope:
    """Ranges of dimension variables and constraints between them. Immutable.

    Args:
        ranges: For each variable its inclusive bounds; None where there is no upper bound.
        constraints: Facts that hold for every valuation; duplicates are dropped.

    Raises:
        ScopeError: If a range is empty, or the constraints are seen to contradict each other or the ranges.
        ValueError: If a name cannot name a dimension variable.
        MissingVariableError: If a constraint speaks of a variable without a range.
    """

    __slots__ = ("_constraints", "_probes", "_ranges", "decisions", "relations")

    def __init__(self, ranges: Mapping[str, tuple[int, int | None]], constraints: Iterable[Constraint] = ()) -> None:
        self._ranges = dict(ranges)
        self._constraints = tuple(dict.fromkeys(constraints))
        self._probes: Probes | None = None
        #: Answers of `compare` that took a search; a memory, not part of the scope's value.
        self.decisions: dict[frozenset[tuple[Monomial, int]], Comparison] = {}
        for name, (low, high) in self._ranges.items():
            dim(name)
            if high is not None and high < low:
                raise ScopeError("a variable has an empty range", f"{low} <= {name} <= {high}", str(self))
        for constraint in self._constraints:
            for name in _dims_of(constraint):
                if name not in self._ranges:
                    raise MissingVariableError(name, self._ranges, "scope")
        intervals: dict[str, Interval] = dict(self._ranges)
        #: The facts in the form that proofs use.
        self.relations: Relations = derive_relations(intervals, self._constraints, str(self))

    @property
    def ranges(self) -> Mapping[str, tuple[int, int | None]]:
        """Inclusive bounds of every variable, as given."""
        return MappingProxyType(self._ranges)

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The constraints, in the order given."""
        return self._constraints

    @property
    def probes(self) -> Probes:
        """Valuations at the corners of the scope, for finding witnesses; derived on first use."""
        if self._probes is None:
            self._probes = Probes(self.relations, self._ranges, self.admits_values)
        return self._probes

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scope):
            return NotImplemented
        return self._ranges == other._ranges and set(self._constraints) == set(other._constraints)

    def __hash__(self) -> int:
        return hash((frozenset(self._ranges.items()), frozenset(self._constraints)))

    def __reduce__(self) -> tuple[Any, ...]:
        return Scope, (self._ranges, self._constraints)

    def __str__(self) -> str:
        facts = [
            f"{low} <= {name}" if high is None else f"{low} <= {name} <= {high}"
            for name, (low, high) in self._ranges.items()
        ]
        return "scope " + ", ".join([*facts, *(str(constraint) for constraint in self._constraints)])

    def __repr__(self) -> str:
        return f"Scope({self._ranges!r}, [{', '.join(str(constraint) for constraint in self._constraints)}])"

    def admits(self, valuation: Mapping[str, int]) -> bool:
        """Say whether a valuation lies in the ranges and meets every constraint.

        Variables that the scope does not know are ignored.

        Raises:
            MissingVariableError: If a variable of the scope has no value.
        """
        return self.admits_values(Values.of(valuation))

    def admits_values(self, values: Values) -> bool:
        """Say the same of values of atoms. A constraint that divides by zero is not met."""
        for name, (low, high) in self._ranges.items():
            value = values[variable_atom(name)]
            if value < low or (high is not None and value > high):
                return False
        try:
            return all(_holds(constraint, values) for constraint in self._constraints)
        except UndefinedSizeError:
            return False

    def with_constraint(self, *constraints: Constraint) -> "Scope":
        """Return the scope with more constraints."""
        return Scope(self._ranges, (*self._constraints, *constraints))

    def sample(self, rng: Random) -> dict[str, int]:
        """Return a valuation that the scope admits; small and large values of a range are equally likely.

        Args:
            rng: The source of randomness; the same state gives the same valuation.

        Returns:
            A value for every variable. The distribution is not uniform, and no coverage is promised.

        Raises:
            ScopeError: If none was found in a bounded number of tries.
        """
        relations = self.relations
        left = [variable for variable in relations.box if is_variable(variable)]
        for _ in range(SAMPLE_TRIES):
            rng.shuffle(left)
            values = assign(relations, lambda _, interval: _choose(interval, rng), left)
            if values is not None and self.admits_values(values):
                return {name: values[variable_atom(name)] for name in self._ranges}
        raise ScopeError("found no valuation that the scope admits", f"none in {SAMPLE_TRIES} tries", str(self))


def _choose(interval: Interval, rng: Random) -> int:
    low, high = interval
    low = -(2**SAMPLE_BITS) if low is None else low
    span = 2**SAMPLE_BITS if high is None else high - low
    if span <= 0:
        return low
    kind = rng.random()
    if kind < 0.1:
        return low
    if kind < 0.2 and high is not None:
        return high
    return low + min(span, rng.randrange(2 ** rng.randint(1, span.bit_length())))


def _dims_of(constraint: Constraint) -> frozenset[str]:
    if isinstance(constraint, Divisible):
        return constraint.value.dims
    return constraint.left.dims | constraint.right.dims


def _holds(constraint: Constraint, values: Values) -> bool:
    if isinstance(constraint, Divisible):
        return evaluate_terms(constraint.value.terms, values) % constraint.divisor == 0
    left, right = evaluate_terms(constraint.left.terms, values), evaluate_terms(constraint.right.terms, values)
    return left == right if isinstance(constraint, Equal) else left <= right
