"""The largest of many footprints, as one expression.

Stages, from cheap to dear; each only drops footprints that others are proved to reach or exceed at every valuation
of the scope:

1. Corner: every atom is written as its proved lower bound plus a rest that is at least 0, so that footprints
   become rows of coefficients of things at least 0. An atom without a proved lower bound has no sign: its column
   appears twice, the second time negated, so that only equal coefficients compare.
2. Envelope: rows below another row, or below a mix of two, go (`envelope.py`).
3. Comparison: what is left is compared pair by pair, unless sampled valuations refute it at once.

The result is the `max` of what remains. Not handled: a footprint that stays only because the facts of the scope
are not used against several others together; the max is exact nevertheless.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import numpy as np

from lowtide.analysis.envelope import Floats, Integers, envelope_rows
from lowtide.analysis.peak_table import PeakTable
from lowtide.symbolic import Expr, Scope, ScopeError, bounds, compare, const, evaluate, maximum
from lowtide.symbolic.terms import Monomial

_SAMPLES = 48
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
    if not len(rows) or not monomials:
        return const(0)
    samples = _sample(scope)
    exprs = [
        Expr({monomial: coefficient for monomial, coefficient in zip(monomials, row, strict=True) if coefficient})
        for row in rows[_undominated(monomials, rows, scope, samples)].tolist()
    ]
    survivors = _drop_by_comparison(exprs, scope, samples)
    return survivors[0] if len(survivors) == 1 else maximum(*survivors)


def table_of_rows(monomials: Sequence[Monomial], rows: Integers, scope: Scope) -> PeakTable:
    """Return the same maximum as a table.

    Args:
        monomials: What each column counts.
        rows: Integer coefficients, shape (steps, monomials).
        scope: Facts assumed. The result holds at each valuation it admits.

    Cost: as `peak_of_rows`, without comparisons.
    """
    if not len(rows) or not monomials:
        return PeakTable((), ())
    kept = rows[_undominated(monomials, rows, scope, _sample(scope))]
    used = np.flatnonzero(np.any(kept != 0, axis=0))
    return PeakTable(
        tuple(Expr({monomials[column]: 1}) for column in used.tolist()),
        tuple(tuple(row) for row in kept[:, used].tolist()),
    )


def undominated_rows(monomials: Sequence[Monomial], rows: Integers, scope: Scope) -> tuple[int, ...]:
    """Return the indices of rows whose maximum is the maximum of all rows, at every valuation of the scope.

    Cost: as `table_of_rows`.
    """
    if not len(rows) or not monomials:
        return ()
    return tuple(int(index) for index in _undominated(monomials, rows, scope, _sample(scope)))


def _sample(scope: Scope) -> list[dict[str, int]]:
    """Admitted valuations; fewer than usual, or none, where they are hard to find: then more rows are kept."""
    rng = random.Random(0)
    found: list[dict[str, int]] = []
    for _ in range(_SAMPLES):
        try:
            found.append(scope.sample(rng))
        except ScopeError:
            break
    return found


def _undominated(
    monomials: Sequence[Monomial], rows: Integers, scope: Scope, samples: Sequence[Mapping[str, int]]
) -> list[int]:
    """Indices of the rows that stages 1 and 2 leave."""
    return envelope_rows(*_at_lower_corner(monomials, rows, scope, samples))


def _at_lower_corner(
    monomials: Sequence[Monomial], rows: Integers, scope: Scope, samples: Sequence[Mapping[str, int]]
) -> tuple[Integers, Floats]:
    """Rewrite rows over products of rests that are at least 0, and give the values of these at sampled valuations.

    Returns:
        Rows, shape (steps, columns), and directions, shape (columns, samples + columns).
    """
    atoms = {atom: Expr({(atom,): 1}) for monomial in monomials for atom in monomial}
    lows = {atom: bounds(expr, scope)[0] for atom, expr in atoms.items()}
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
    # Bounds differences of rows, and any sum of entries of a row.
    bound = int(np.abs(rows).max()) * largest * len(monomials) * 4 * len(columns)
    dtype = np.int64 if bound < _LIMIT else object
    transform = np.zeros((len(monomials), len(columns)), dtype=dtype)
    for row, expansion in enumerate(expansions):
        for part, coefficient in expansion.items():
            transform[row, columns[part]] = coefficient
    shifted = rows.astype(dtype) @ transform
    directions = np.ones((len(columns), len(samples)))
    for place, sample in enumerate(samples):
        rests = {atom: float(evaluate(expr, sample) - (lows[atom] or 0)) for atom, expr in atoms.items()}
        for part, column in columns.items():
            for atom in part:
                directions[column, place] *= rests[atom]
    directions = np.concatenate([directions, np.eye(len(columns))], axis=1)
    unsigned = [column for part, column in columns.items() if any(lows[atom] is None for atom in part)]
    if unsigned:
        shifted = np.concatenate([shifted, -shifted[:, unsigned]], axis=1)
        directions = np.concatenate([directions, np.zeros((len(unsigned), directions.shape[1]))])
    return shifted, directions


def _drop_by_comparison(exprs: list[Expr], scope: Scope, valuations: Sequence[Mapping[str, int]]) -> list[Expr]:
    """Drop expressions that `compare` proves to be at most another one that stays."""
    if len(exprs) < 2:
        return exprs
    samples = [[evaluate(expr, valuation) for expr in exprs] for valuation in valuations]
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
