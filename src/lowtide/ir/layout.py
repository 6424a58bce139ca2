"""Arithmetic of strided windows: element counts, strides, how far a value reaches into its buffer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lowtide.ir.dtypes import item_bytes
from lowtide.ir.program import Program, Statement, Value
from lowtide.symbolic import Expr, const


def numel(shape: Iterable[Expr]) -> Expr:
    """Return the element count of a shape; 1 for no axes."""
    count = const(1)
    for length in shape:
        count = count * length
    return count


def contiguous_strides(shape: Sequence[Expr]) -> tuple[Expr, ...]:
    """Return the strides, in elements, of a shape laid out densely with the last axis innermost."""
    strides: list[Expr] = []
    step = const(1)
    for length in reversed(shape):
        strides.append(step)
        step = step * length
    return tuple(reversed(strides))


def extent(value: Value) -> Expr:
    """Return how far a value reaches into its buffer, in bytes from the buffer's start.

    Exact when every length of the shape is at least 1; a value without elements reaches nowhere, whatever
    this expression says. Strides are taken as non-negative.

    Raises:
        KeyError: If the element type is unknown.
    """
    last = value.offset
    for length, stride in zip(value.shape, value.stride, strict=True):
        last = last + (length - 1) * stride
    return (last + 1) * item_bytes(value.dtype)


def needed_dims(program: Program, statement: Statement) -> frozenset[str]:
    """Return the dimension variables that must be known when `statement` begins.

    These are `reads_dims`, those of the workspace, of the values read and written, and of the values
    defined with their buffers. A call that returns its results itself may also be the one that makes
    their variables known: what it `defines_dims` is then not needed before.
    """
    dims = set(statement.reads_dims)
    for workspace in statement.workspace:
        if workspace.size is not None:
            dims |= workspace.size.dims
    for name in statement.reads + statement.writes + statement.defines:
        value = program.values[name]
        dims |= value.offset.dims
        for expr in value.shape + value.stride:
            dims |= expr.dims
    for name in statement.defines:
        dims |= program.buffers[program.values[name].buffer].size.dims
    if not statement.allocates:
        dims -= set(statement.defines_dims)
    return frozenset(dims)
