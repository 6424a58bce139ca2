"""Valuations at which orders are searched and compared: a function of the scope alone."""

from __future__ import annotations

from random import Random

from lowtide.symbolic import Scope, ScopeError
from lowtide.symbolic.terms import variable_atom

_SEED = 20241216
_TYPICAL_HIGH = 4096
_MACHINE_HIGH = 16
_TRIES = 4


def sample_valuations(scope: Scope, count: int, machine: frozenset[str] = frozenset()) -> tuple[dict[str, int], ...]:
    """Admitted valuations, small ones and large ones, each once; fewer than `count` where more are hard to find.

    Args:
        scope: The scope.
        count: How many are wanted.
        machine: Variables that are parameters of the machine, such as a number of threads; taken up to 16.

    Returns:
        The valuations; none where not one is found.

    Variables without an upper bound, or with a very large one, are taken up to 4096 where the scope allows it: most
    programs run there, and an order that is best there by leading terms is best beyond.
    """
    typical = _typical(scope, machine)
    if typical is None:
        return ()
    rng = Random(_SEED)
    found: dict[tuple[int, ...], dict[str, int]] = {}
    corners = _corners(typical)
    for place in range(count * _TRIES):
        if len(found) == count:
            break
        # Corners come first, but not alone: few samples must not all be extreme.
        if place % 2 and place // 2 < len(corners):
            valuation = corners[place // 2]
        else:
            try:
                valuation = typical.sample(rng)
            except ScopeError:
                break  # so few are admitted that finding one is luck
        found.setdefault(tuple(valuation.values()), valuation)
    return tuple(found.values())


def _corners(scope: Scope) -> list[dict[str, int]]:
    """All variables low, all high, and for each variable it alone low or high, as far as the scope admits them."""
    probes = scope.probes
    found = [*probes.corners, *(probe for name in scope.ranges for probe in probes.axis(variable_atom(name)))]
    return [dict(probe.valuation) for probe in dict.fromkeys(found)]


def _typical(scope: Scope, machine: frozenset[str]) -> Scope | None:
    """The scope with its ranges cut to what is usual; the scope itself where that admits nothing."""
    ranges: dict[str, tuple[int, int | None]] = {}
    for name, (low, high) in scope.ranges.items():
        usual = max(low, _MACHINE_HIGH if name in machine else _TYPICAL_HIGH)
        ranges[name] = (low, usual if high is None else min(high, usual))
    for bounds in (ranges, scope.ranges):
        try:
            candidate = Scope(bounds, scope.constraints)
            candidate.sample(Random(_SEED))
        except ScopeError:
            continue
        return candidate
    return None
