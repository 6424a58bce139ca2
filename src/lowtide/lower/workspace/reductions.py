"""Workspace of reductions on the CPU: a converted operand, and one partial result for each thread.

Integers and truth values are summed as int64, and a `dtype` argument converts first. A reduction of at least 32768
elements to a single one runs in two passes when there are several threads: each has a partial result of its own.
"""

from types import MappingProxyType

from lowtide.ir import Workspace, item_bytes, numel
from lowtide.lower.workspace.call import Argument, Call, as_integer
from lowtide.lower.workspace.layout import is_at_least, is_one, shape_of
from lowtide.lower.workspace.machine import CpuMachine
from lowtide.symbolic import Expr, const, maximum

_GRAIN = 32768
"""Elements below which ATen does not use several threads."""
_FLOATS = ("float32", "float64")


def total(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of a sum or a product."""
    operand = _operand(call)
    wanted = _given_type(call) or (operand.dtype if _is_inexact(operand.dtype) else "int64")
    size = const(0) if wanted == operand.dtype else numel(shape_of(operand)) * item_bytes(wanted)
    return _bytes(size + _partial_results(call, machine) * item_bytes(wanted))


def mean(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of a mean of floats: that of the sum, then of the division by a number."""
    operand = _operand(call)
    wanted = _given_type(call) or operand.dtype
    if operand.dtype not in _FLOATS or wanted not in _FLOATS:
        return (Workspace(call.operator, None),)
    item = item_bytes(wanted)
    division = const(8 + item)
    if wanted != operand.dtype:
        converted = numel(shape_of(operand)) * item
        return _bytes(maximum(converted + _partial_results(call, machine) * item, division))
    # The greater of the two, written so that it stays short: the first is 0 or one term.
    return _bytes(division + _is_split(call) * maximum(0, machine.threads * item - division))


def extreme(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of a greatest or least element, or of `any` and `all` of truth values."""
    operand = _operand(call)
    if call.operator.startswith(("aten.any", "aten.all")) and operand.dtype != "bool":
        return (Workspace(call.operator, None),)
    return _bytes(_partial_results(call, machine) * item_bytes(operand.dtype))


def _operand(call: Call) -> Argument:
    return next(iter(call.arguments.values()))


def _given_type(call: Call) -> str | None:
    given = call.arguments.get("dtype")
    return None if given is None or given.value is None else str(given.value).removeprefix("torch.")


def _is_inexact(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat", "complex"))


def _partial_results(call: Call, machine: CpuMachine) -> Expr:
    """How many partial results there are: none, or one for each of several threads."""
    return _is_split(call) * (machine.threads - is_one(machine.threads))


def _is_split(call: Call) -> Expr:
    """Return 1 where the reduction is large enough to be split and has a single result, else 0."""
    shape = shape_of(_operand(call))
    kept = const(1)
    reduced = _reduced_axes(call, len(shape))
    for axis, length in enumerate(shape):
        if axis not in reduced:
            kept = kept * length
    if kept.is_constant and kept.constant_value != 1:
        return const(0)
    return is_one(kept) * is_at_least(numel(shape), _GRAIN)


def _reduced_axes(call: Call, rank: int) -> frozenset[int]:
    given = call.arguments.get("dim")
    axes = None if given is None else given.value
    if isinstance(axes, tuple):
        found = [as_integer(axis) for axis in axes]
    else:
        found = [] if axes is None else [as_integer(axes)]
    named = frozenset(axis % rank for axis in found if axis is not None) if rank else frozenset[int]()
    return named or frozenset(range(rank))


def _bytes(size: Expr) -> tuple[Workspace, ...]:
    return () if size == const(0) else (Workspace("partial results of a reduction", size),)


REDUCTIONS = MappingProxyType(
    {
        "aten.sum": total,
        "aten.prod": total,
        "aten.mean": mean,
        "aten.amax": extreme,
        "aten.amin": extreme,
        "aten.any": extreme,
        "aten.all": extreme,
    }
)
"""Formulas of reductions, by operator."""
