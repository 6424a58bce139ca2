"""Which of many rows of coefficients can be the largest, when every column stands for something at least 0.

    two families of rows over (a, b), drawn as points:

      b
      |  1                 1 and 5 stay. 2, 3 and 4 lie below the line between them: at every (a, b) >= 0 one of
      |    2               1 and 5 is at least as large, although neither dominates them alone.
      |      3  .
      |        4           This is what a training step looks like: from block to block, activations are freed
      |          5         and gradients of weights are added.
      +------------- a

A row is dropped when another row is at least as large in every column, or when a mix of two others,
`t*x + (1 - t)*y` with `0 <= t <= 1`, is. Candidates are found in floating point and each drop is confirmed in
exact integers. Not handled: a row below a mix of three or more others stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Integers: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]

_MIXED = 64
"""Of so many rows that stay all pairs are mixed; beyond that, rows are only compared one by one."""
_TOLERANCE = 1e-9


def envelope_rows(rows: Integers, directions: Floats) -> list[int]:
    """Return indices of rows whose maximum is that of all rows.

    Args:
        rows: Integer coefficients, shape (rows, columns). Sums of a row must not overflow.
        directions: Values of the columns, shape (columns, samples), at which to look for rows that must stay. They
            decide how fast rows are dropped, never which.

    Returns:
        Ascending indices. For any values >= 0 of the columns, the maximum over these rows equals that over all.
        Exact. Not always the smallest such set.

    Cost: O(rows kept^2 x rows left x columns) in numpy for the first `_MIXED` kept, one factor less for others.
    """
    left = _drop_lower_neighbours(rows)
    left = left[np.unique(rows[left], axis=0, return_index=True)[1]] if rows.dtype != object else left
    kept: list[int] = []
    winners = iter(_winners(rows, left, directions))
    # A row dominates only rows of a smaller or equal sum, so the largest sum that is left is not dominated.
    left = left[np.argsort(-rows[left].sum(axis=1), kind="stable")]
    while len(left):
        row = _next(winners, left)
        left = left[~(rows[left] <= rows[row]).all(axis=1)]
        if len(kept) < _MIXED:
            for other in kept:
                if not len(left):
                    break
                left = left[~_below_mix(rows[left], rows[row], rows[other])]
        kept.append(row)
    return sorted(_drop_mixed(rows, kept) if len(kept) <= _MIXED else kept)


def _next(winners: Iterable[int], left: npt.NDArray[np.intp]) -> int:
    """Take the next winner that is still there, otherwise the first row that is left."""
    for row in winners:
        if row in left:
            return row
    return int(left[0])


def _drop_lower_neighbours(rows: Integers) -> npt.NDArray[np.intp]:
    """Return indices of the rows that are not below the row before or after them: local maxima."""
    below = np.zeros(len(rows), dtype=bool)
    if len(rows) > 1:
        rises = (rows[1:] >= rows[:-1]).all(axis=1)
        falls = (rows[:-1] >= rows[1:]).all(axis=1)
        below[:-1] |= rises  # of equal neighbours the last stays
        below[1:] |= falls & ~rises
    return np.flatnonzero(~below)


def _winners(rows: Integers, left: npt.NDArray[np.intp], directions: Floats) -> list[int]:
    """Return the rows that are largest in some direction, most often first."""
    scores = rows[left].astype(np.float64) @ directions
    found, counts = np.unique(scores.argmax(axis=0), return_counts=True)
    return [int(left[place]) for place in found[np.argsort(-counts, kind="stable")]]


def _below_mix(rows: Integers, one: Integers, other: Integers) -> npt.NDArray[np.bool_]:
    """Tell for each row whether some mix of two rows is at least as large in every column. Exact."""
    step = one - other
    gap = rows - other
    up, down, flat = step > 0, step < 0, step == 0
    low = np.zeros(len(rows))
    high = np.ones(len(rows))
    column = np.full(len(rows), -1)
    if up.any():
        ratios = gap[:, up].astype(np.float64) / step[up].astype(np.float64)
        low = np.maximum(low, ratios.max(axis=1))
        column = np.where(low > 0, np.flatnonzero(up)[ratios.argmax(axis=1)], -1)
    if down.any():
        high = np.minimum(high, (gap[:, down].astype(np.float64) / step[down].astype(np.float64)).min(axis=1))
    below = (low <= high + _TOLERANCE) & (gap[:, flat] <= 0).all(axis=1)
    for index in np.flatnonzero(below):
        place = int(column[index])
        above, under = (int(gap[index, place]), int(step[place])) if place >= 0 else (0, 1)
        steps, gaps = step.tolist(), gap[index].tolist()
        below[index] = 0 <= above <= under and all(
            above * rise >= under * missing for rise, missing in zip(steps, gaps, strict=True)
        )
    return below


def _drop_mixed(rows: Integers, kept: list[int]) -> list[int]:
    """Drop rows below a mix of two others that stay; a row may be kept before the pair that covers it.

    A row goes only while both that cover it are there, so the maximum of those that stay is that of all.
    """
    staying = list(kept)
    for one, other in combinations(kept, 2):
        if one in staying and other in staying and len(staying) > 2:
            rest = [row for row in staying if row not in (one, other)]
            covered = _below_mix(rows[rest], rows[one], rows[other])
            staying = [row for row in staying if row in (one, other) or not covered[rest.index(row)]]
    return staying
