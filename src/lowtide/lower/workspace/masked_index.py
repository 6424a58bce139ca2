"""Workspace of adding at masked indices on the CPU: the gradient of an embedding, as torch decomposes it."""

from collections.abc import Sequence

from lowtide.ir import Workspace, item_bytes, numel
from lowtide.lower.workspace.call import Argument, Call, argument
from lowtide.lower.workspace.layout import shape_of, tensor_size
from lowtide.lower.workspace.machine import CpuMachine
from lowtide.symbolic import Expr, const, maximum


def masked_index_put_accumulate(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of `_unsafe_masked_index_put_accumulate`: clamped indices and masked values; the inverted mask before.

    Clamped indices and masked values are there while the result is; the inverted mask goes before the result comes.
    Derived from ATen's source for 64-bit indices, checked by measurement.
    """
    target, mask = argument(call, 0, "self"), argument(call, 1, "mask")
    indices, values = argument(call, 2, "indices").value, argument(call, 3, "values")
    entries = (
        [e for e in indices if isinstance(e, Argument) and e.shape is not None] if isinstance(indices, tuple) else []
    )
    shape = _broadcast(shape_of(values), shape_of(mask))
    if not entries or shape is None or any(entry.dtype != "int64" for entry in entries):
        return (Workspace(call.operator, None),)
    clamped = sum((tensor_size(entry) for entry in entries), start=const(0))
    masked = numel(shape) * item_bytes(values.dtype)
    first = maximum(0, tensor_size(mask) - tensor_size(target))
    return (Workspace("masked values and indices", clamped + masked + first),)


def _broadcast(left: Sequence[Expr], right: Sequence[Expr]) -> tuple[Expr, ...] | None:
    """The shape of two operands together; None where it is not certain which of two lengths is 1."""
    one = const(1)
    rank = max(len(left), len(right))
    lengths: list[Expr] = []
    padded = [(one,) * (rank - len(shape)) + tuple(shape) for shape in (left, right)]
    for a, b in zip(*padded, strict=True):
        if b in (one, a):
            lengths.append(a)
        elif a == one:
            lengths.append(b)
        else:
            return None
    return tuple(lengths)
