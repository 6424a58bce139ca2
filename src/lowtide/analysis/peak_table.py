"""The peak of an order as a small table of numbers, to be evaluated at one valuation after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import mul

from lowtide.symbolic import BatchEvaluator, Expr, compile_batch


@dataclass(frozen=True)
class PeakTable:
    """The largest of several sums: `max over rows of sum_j row[j] * monomials[j]`, in bytes.

    Attributes:
        monomials: What each column counts.
        rows: Coefficients; 0 rows mean 0 bytes.
    """

    monomials: tuple[Expr, ...]
    rows: tuple[tuple[int, ...], ...]
    _evaluators: list[BatchEvaluator] = field(default_factory=list[BatchEvaluator], repr=False, compare=False)

    def at(self, valuation: Mapping[str, int]) -> int:
        """The peak at a valuation. Exact. Cost: O(rows x columns) multiplications of integers."""
        if not self._evaluators:
            self._evaluators.append(compile_batch(self.monomials))
        values: Sequence[int] = self._evaluators[0].integers_at(valuation)
        return max((sum(map(mul, row, values)) for row in self.rows), default=0)

    @property
    def dims(self) -> frozenset[str]:
        """The dimension variables that the peak depends on."""
        return frozenset(name for monomial in self.monomials for name in monomial.dims)

    def __reduce__(self) -> tuple[type[PeakTable], tuple[object, ...]]:
        """Leave the compiled evaluator out."""
        return PeakTable, (self.monomials, self.rows)
