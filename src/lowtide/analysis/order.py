"""Orders: for each step the index of the statement that runs there."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.errors import LowtideError
from lowtide.ir import Program


class OrderError(LowtideError):
    """An order that does not name every statement exactly once."""


def resolve_order(program: Program, order: Sequence[int] | None) -> tuple[int, ...]:
    """Return `order` as a tuple, or program order for None.

    Raises:
        OrderError: If `order` is not a permutation of the statement indices. Whether it respects the
            dependences is not checked here.
    """
    count = len(program.statements)
    if order is None:
        return tuple(range(count))
    resolved = tuple(order)
    if len(resolved) != count or set(resolved) != set(range(count)):
        raise OrderError(
            f"cannot use this order for program '{program.name}': it is not a permutation of its statements",
            found=f"{len(resolved)} entries, {len(set(resolved))} of them distinct, for {count} statements",
            where="argument order",
            fix="name every statement index from 0 exactly once",
        )
    return resolved
