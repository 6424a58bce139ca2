"""The answer to a comparison of two sizes, the rule that gave it, and a tally of answers."""

from collections import Counter
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple


class Verdict(Enum):
    """How two sizes a and b compare over every valuation that a scope admits.

    Where an expression divides by zero it has no value, and a verdict says nothing about that valuation.
    """

    EQUAL = "equal: a == b, proved"
    LESS_EQUAL = "at most: a <= b, proved"
    GREATER_EQUAL = "at least: a >= b, proved"
    SHAPE_DEPENDENT = "depends on the shape: a < b at one admitted valuation and a > b at another"
    UNKNOWN = "unknown: neither proved nor refuted; take the safe road"


class Rule(Enum):
    """The rule that decided a comparison. The value explains it."""

    IDENTITY = "the normal forms are the same or differ by an integer"
    SUBSTITUTION = "after equalities of the scope are substituted"
    LOWER_CORNER = "all coefficients have one sign when every variable is measured from its lower bound"
    INTERVAL = "negative terms at their most negative are outweighed"
    BERNSTEIN = "all Bernstein coefficients have one sign, on the ranges or on parts of them"
    CONSTRAINT = "after a multiple of a constraint is subtracted"
    CASE_SPLIT = "every case of the floors and maxima is decided"
    PIECES = "on every piece of the ranges, each narrowed by the constraints"
    ENUMERATION = "all values of the variables were tried"
    WITNESS = "two admitted valuations with opposite answers"
    NONE = "no rule decided"


class Comparison(NamedTuple):
    """What `compare(a, b, scope)` found.

    Attributes:
        verdict: The answer.
        rule: The rule that decided.
        less: An admitted valuation where a < b; given for SHAPE_DEPENDENT.
        greater: An admitted valuation where a > b; given for SHAPE_DEPENDENT.
    """

    verdict: Verdict
    rule: Rule
    less: Mapping[str, int] | None = None
    greater: Mapping[str, int] | None = None

    @property
    def is_at_most(self) -> bool:
        """Whether a <= b is proved."""
        return self.verdict is Verdict.LESS_EQUAL or self.verdict is Verdict.EQUAL

    @property
    def is_at_least(self) -> bool:
        """Whether a >= b is proved."""
        return self.verdict is Verdict.GREATER_EQUAL or self.verdict is Verdict.EQUAL


class CompareTally:
    """Counts of comparisons by rule and verdict. Pass one to `compare` to have it counted.

    Args:
        counter: The counts to add to; a new one by default.
    """

    __slots__ = ("counter",)

    def __init__(self, counter: Counter[tuple[Rule, Verdict]] | None = None) -> None:
        self.counter: Counter[tuple[Rule, Verdict]] = Counter() if counter is None else counter

    def record(self, comparison: Comparison) -> None:
        """Count one comparison."""
        self.counter[comparison.rule, comparison.verdict] += 1

    @property
    def comparisons(self) -> int:
        """How many comparisons were counted."""
        return self.counter.total()

    @property
    def unknown_share(self) -> float:
        """The share of UNKNOWN among them; 0.0 where nothing was counted."""
        unknown = sum(count for (_, verdict), count in self.counter.items() if verdict is Verdict.UNKNOWN)
        return unknown / self.comparisons if self.comparisons else 0.0

    def rows(self) -> list[tuple[Rule, Verdict, int]]:
        """Return rule, verdict and count, the most frequent first."""
        return [(rule, verdict, count) for (rule, verdict), count in self.counter.most_common()]
