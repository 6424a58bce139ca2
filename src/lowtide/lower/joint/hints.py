"""Canonical hints: what Inductor and the partitioner take a symbolic size for, whatever shape came first.

torch weighs sizes (what to save, what to fuse, how to split a reduction) by the integers of the first batch it
saw, so the generated program would depend on history. Here every symbol is given a value that depends only
on its range.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

_TYPICAL = 64
"""Stands for a size whose range says nothing: two such sizes make a batch of 4,096 elements."""


def canonical_hint(low: int | None, high: int | None) -> int:
    """The integer that stands for a size in a range.

    Args:
        low: Least value, None for unbounded.
        high: Greatest value, inclusive, None for unbounded.
    """
    least = 0 if low is None else low
    hint = max(_TYPICAL, least)
    return hint if high is None else min(hint, high)


@contextlib.contextmanager
def canonical_hints(shape_env: Any) -> Iterator[None]:
    """Let every symbol of a shape environment be weighed by its canonical hint inside the context."""
    if shape_env is None:
        yield
        return
    overridden: dict[Any, int] = {}
    for symbol, bounds in shape_env.var_to_range.items():
        if symbol not in shape_env.var_to_hint_override:
            overridden[symbol] = canonical_hint(_integer(bounds.lower), _integer(bounds.upper))
    shape_env.var_to_hint_override.update(overridden)
    try:
        yield
    finally:
        for symbol in overridden:
            shape_env.var_to_hint_override.pop(symbol, None)


def _integer(value: Any) -> int | None:
    return int(value) if getattr(value, "is_Integer", False) and abs(int(value)) < 2**62 else None
