"""The largest of many footprints, as one expression.

Stages, from cheap to dear; each only drops footprints that another one is proved to reach or exceed at every
valuation of the scope:

1. Neighbours: a step next to a larger one cannot be the peak.
2. Duplicates: equal rows of coefficients are one footprint.
3. Corner: every atom is written as its proved lower bound plus a rest that is at least 0. Then a row whose
   coefficients are all at most those of another row is dominated. An atom without a proved lower bound has no
   sign: its coefficients must be equal.
4. Comparison: what is left is compared pair by pair, unless sampled valuations refute it at once.

The result is the `max` of what remains. Not handled: a footprint below the max of several others together, none of
which alone dominates it; it stays in the max, which is exact nevertheless.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lowtide.symbolic import Expr, Scope, bounds, compare, const, evaluate, maximum
from lowtide.symbolic.terms import Monomial

Integers: TypeAlias = npt.NDArray[np.int64]
_SAMPLES = 24
_LIMIT = 2**62


def peak_of_rows(monomials: Sequence[Monomial], rows: Integers, scope: Scope) -> Expr:
    """Return the maximum over the rows of sum_j rows[i, j] * monomials[j].

    Args:
        monomials: What each column counts.
        rows: Integer coefficients, shape (steps, monomials).
        scope: Facts assumed. The result holds at each valuation it admits.

    Returns:
        The `max` of the rows that are not dominated. Exact over the scope; 0 for no rows.

    Cost: O(distinct rows x rows kept x columns) in numpy; one comparison for each pair kept that samples do
        not refute.
    """
    if not len(rows):
        return const(0)
    if not monomials:
        return const(0)
    corner = _at_lower_corner(monomials, rows, scope)
    kept = _undominated(corner)
    exprs = [
        Expr({monomial: coefficient for monomial, coefficient in zip(monomials, row, strict=True) if coefficient})
        for row in rows[kept].tolist()
    ]
    survivors = _drop_by_comparison(exprs, scope)
    return survivors[0] if len(survivors) == 1 else maximum(*survivors)


def _at_lower_corner(monomials: Sequence[Monomial], rows: Integers, scope: Scope) -> Integers:
    """Rewrite rows over products of rests that are at least 0; columns without a sign appear twice, negated."""
    lows: dict[str, int | None] = {}
    for monomial in monomials:
        for atom in monomial:
            if atom not in lows:
                lows[atom] = bounds(Expr({(atom,): 1}), scope)[0]
    columns: dict[Monomial, int] = {}
    expansions: list[dict[Monomial, int]] = []
    for monomial in monomials:
        expansion: dict[Monomial, int] = {(): 1}
        for atom in monomial:
            low = lows[atom] or 0
            grown: dict[Monomial, int] = {}
            for part, coefficient in expansion.items():
                longer = tuple(sorted((*part, atom)))
                grown[longer] = grown.get(longer, 0) + coefficient
                if low:
                    grown[part] = grown.get(part, 0) + coefficient * low
            expansion = grown
        expansions.append(expansion)
        for part in expansion:
            columns.setdefault(part, len(columns))
    largest = max(abs(coefficient) for expansion in expansions for coefficient in expansion.values())
    # Bounds any sum of entries of a row of the result as well, which `_undominated` takes.
    bound = int(np.abs(rows).max()) * largest * len(monomials) * 2 * len(columns)
    dtype = np.int64 if bound < _LIMIT else object
    transform = np.zeros((len(monomials), len(columns)), dtype=dtype)
    for row, expansion in enumerate(expansions):
        for part, coefficient in expansion.items():
            transform[row, columns[part]] = coefficient
    shifted = rows.astype(dtype) @ transform
    unsigned = [column for part, column in columns.items() if any(lows[atom] is None for atom in part)]
    return np.concatenate([shifted, -shifted[:, unsigned]], axis=1) if unsigned else shifted


def _undominated(rows: Integers) -> list[int]:
    """Return indices of rows such that every row is, in every column, at most one of those returned."""
    candidates = np.arange(len(rows))
    if len(rows) > 1:
        rises = (rows[1:] >= rows[:-1]).all(axis=1)
        falls = (rows[:-1] >= rows[1:]).all(axis=1)
        below = np.zeros(len(rows), dtype=bool)
        below[:-1] |= rises  # the next row is at least as large; of equal ones the last stays
        below[1:] |= falls & ~rises
        candidates = candidates[~below]
    # A row dominates only rows of smaller or equal sum: taking the largest sum first never keeps a dominated row,
    # unless one with the same sum dominates it, and then they are equal.
    order = np.argsort(-rows[candidates].sum(axis=1), kind="stable")
    left = candidates[order]
    kept: list[int] = []
    while len(left):
        kept.append(int(left[0]))
        left = left[~(rows[left] <= rows[left[0]]).all(axis=1)]
    return kept


def _drop_by_comparison(exprs: list[Expr], scope: Scope) -> list[Expr]:
    """Drop expressions that `compare` proves to be at most another one that stays."""
    if len(exprs) < 2:
        return exprs
    rng = random.Random(0)
    samples = [[evaluate(expr, valuation) for expr in exprs] for valuation in _samples(scope, rng)]
    # The most often largest first, so that strong candidates drop weak ones early.
    wins = [sum(values[index] == max(values) for values in samples) for index in range(len(exprs))]
    ranked = sorted(range(len(exprs)), key=lambda index: (-wins[index], index))
    kept: list[int] = []
    for index in ranked:
        refuted = [any(values[index] > values[other] for values in samples) for other in kept]
        proved = any(
            compare(exprs[index], exprs[other], scope).is_at_most
            for other, no in zip(kept, refuted, strict=True)
            if not no
        )
        if not proved:
            kept.append(index)
    # Later ones may still dominate earlier ones.
    final: list[int] = []
    for position, index in enumerate(kept):
        later = kept[position + 1 :]
        dominated = any(
            compare(exprs[index], exprs[other], scope).is_at_most
            for other in later
            if all(values[index] <= values[other] for values in samples)
        )
        if not dominated:
            final.append(index)
    return [exprs[index] for index in sorted(final)]


def _samples(scope: Scope, rng: random.Random) -> list[dict[str, int]]:
    return [scope.sample(rng) for _ in range(_SAMPLES)]
