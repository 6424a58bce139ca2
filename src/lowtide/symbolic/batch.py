"""Many expressions at one valuation: footprints of a program, offsets of an arena.

`compile_batch` collects the distinct monomials of all expressions once. At a valuation each monomial is computed once,
as a Python integer, and the sums run in numpy's int64 where a bound on the sum of magnitudes, computed in exact
arithmetic, shows that nothing can overflow; else in Python integers. The result is exact either way.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from lowtide.symbolic.evaluate import Values
from lowtide.symbolic.expression import Expr
from lowtide.symbolic.terms import Monomial, Terms, evaluate_terms

IntegerArray: TypeAlias = NDArray[np.int64] | NDArray[np.object_]

LARGEST = 2**63 - 1


@final
class BatchEvaluator:
    """Expressions that are evaluated together.

    Args:
        expressions: The expressions, in the order of the results.
    """

    __slots__ = ("_all_terms", "_coefficients", "_columns", "_fits", "_heaviest", "_monomials", "_starts")

    def __init__(self, expressions: Iterable[Expr]) -> None:
        self._all_terms: tuple[Terms, ...] = tuple(expression.terms for expression in expressions)
        columns: dict[Monomial, int] = {}
        indices: list[int] = []
        coefficients: list[int] = []
        starts: list[int] = []
        heaviest: dict[int, int] = {}
        for terms in self._all_terms:
            starts.append(len(indices))
            # `reduceat` needs one entry per expression at least.
            for monomial, coefficient in terms.items() or (((), 0),):
                column = columns.setdefault(monomial, len(columns))
                indices.append(column)
                coefficients.append(coefficient)
                heaviest[column] = max(heaviest.get(column, 0), abs(coefficient))
        self._monomials: tuple[Monomial, ...] = tuple(columns)
        self._heaviest: tuple[int, ...] = tuple(heaviest[column] for column in range(len(columns)))
        self._fits = max(self._heaviest, default=0) <= LARGEST
        self._columns = np.array(indices, dtype=np.intp)
        self._coefficients = np.array(coefficients if self._fits else [0] * len(indices), dtype=np.int64)
        self._starts = np.array(starts, dtype=np.intp)

    def __len__(self) -> int:
        return len(self._all_terms)

    def at(self, valuation: Mapping[str, int]) -> IntegerArray:
        """Return the values of all expressions.

        Args:
            valuation: An integer for every variable of the expressions.

        Returns:
            Array of shape (expressions,): int64 where every value is proved to fit, else objects that are Python
            integers. Exact either way.

        Raises:
            MissingVariableError: If a variable has no value.
            UndefinedSizeError: If a denominator is zero.

        Cost: one product per distinct monomial, then a few vector operations over the terms.
        """
        values = Values.of(valuation)
        at_monomials = [evaluate_terms({monomial: 1}, values) for monomial in self._monomials]
        # No sum, nor any part of it, exceeds the sum over all monomials of the largest coefficient times the value.
        bound = sum(weight * abs(value) for weight, value in zip(self._heaviest, at_monomials, strict=True))
        if not self._all_terms:
            return np.zeros(0, dtype=np.int64)
        if bound > LARGEST or not self._fits:
            known = dict(zip(self._monomials, at_monomials, strict=True))
            exact = [sum(c * known[m] for m, c in terms.items()) for terms in self._all_terms]
            if max(map(abs, exact)) <= LARGEST:
                return np.array(exact, dtype=np.int64)
            return np.array(exact, dtype=np.object_)
        products = np.array(at_monomials, dtype=np.int64)[self._columns] * self._coefficients
        return np.add.reduceat(products, self._starts)

    def integers_at(self, valuation: Mapping[str, int]) -> list[int]:
        """Return the values as a list of Python integers; raises as `at` does."""
        return [int(value) for value in self.at(valuation)]


def compile_batch(expressions: Iterable[Expr]) -> BatchEvaluator:
    """Prepare many expressions to be evaluated at one valuation after another.

    Cost: linear in the number of terms, once.

    Example:
        >>> from lowtide.symbolic import compile_batch, dim
        >>> compile_batch([dim("s") * 4, dim("s") ** 2]).integers_at({"s": 5})
        [20, 25]
    """
    return BatchEvaluator(expressions)
