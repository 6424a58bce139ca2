"""Valuations at which orders are searched and compared: a function of the scope alone."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from lowtide.symbolic import Scope, ScopeError

_SEED = 20241216
_TYPICAL_HIGH = 4096
_TRIES = 4


def sample_valuations(scope: Scope, count: int) -> tuple[dict[str, int], ...]:
    """Admitted valuations, small ones and large ones, each once; fewer than `count` where the scope has no more.

    Variables without an upper bound, or with a very large one, are taken up to 4096 where the scope allows it: most
    programs run there, and an order that is best there by leading terms is best beyond.
    """
    typical = _typical(scope)
    rng = Random(_SEED)
    found: dict[tuple[int, ...], dict[str, int]] = {}
    for _ in range(count * _TRIES):
        if len(found) == count:
            break
        valuation = typical.sample(rng)
        found.setdefault(tuple(valuation.values()), valuation)
    return tuple(found.values())


def _typical(scope: Scope) -> Scope:
    ranges: dict[str, tuple[int, int | None]] = {
        name: (low, max(low, _TYPICAL_HIGH) if high is None else min(high, max(low, _TYPICAL_HIGH)))
        for name, (low, high) in scope.ranges.items()
    }
    for candidate in _scopes(ranges, scope):
        try:
            candidate.sample(Random(_SEED))
        except ScopeError:
            continue
        return candidate
    return scope


def _scopes(ranges: dict[str, tuple[int, int | None]], scope: Scope) -> Iterator[Scope]:
    try:
        yield Scope(ranges, scope.constraints)
    except ScopeError:
        return
