"""Workspace of sorting, counting and running sums on the CPU."""

from lowtide.ir import Workspace, item_bytes, numel
from lowtide.lower.workspace.call import Call, argument, as_integer, plain_value
from lowtide.lower.workspace.layout import is_not_contiguous, shape_of, stride_of, tensor_size
from lowtide.lower.workspace.machine import CpuMachine
from lowtide.symbolic import Expr, minimum

_INDEX_BYTES = 8
_INTEGERS = ("bool", "uint8", "int8", "int16", "int32", "int64")


def sort(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of `sort`: an index list as long as the sorted axis, for each working thread.

    The profiler sees the calling thread's list only: see `CpuMachine.counts_workers`. Fitted, not derived; checked by
    measurement over element types, axes and both sides of the size where sorting becomes parallel.
    """
    shape = shape_of(argument(call, 0, "self"))
    if not shape:
        return (Workspace(call.operator, None),)
    axis = as_integer(plain_value(call, 2 if "stable" in call.arguments else 1, "dim", -1))
    if axis is None:
        return (Workspace(call.operator, None),)
    size = shape[axis] * _INDEX_BYTES
    if machine.counts_workers:
        others = numel(tuple(length for at, length in enumerate(shape) if at != axis % len(shape)))
        size = size * minimum(machine.threads, others)
    return (Workspace("sorted indices", size),)


def histc(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of `histc` with given bounds: bin edges, and one list of counts per thread.

    Without bounds (low = high) the operator looks for them first, which is not modelled.
    """
    values = argument(call, 0, "self")
    bins, low, high = (plain_value(call, at, name) for at, name in ((1, "bins"), (2, "min"), (3, "max")))
    count = bins if isinstance(bins, (int, Expr)) else 100
    if low is None or high is None or low == high:
        return (Workspace(call.operator, None),)
    size = ((count + 1) + machine.threads * count) * item_bytes(values.dtype)
    copied = is_not_contiguous(shape_of(values), stride_of(values)) * tensor_size(values)
    return (Workspace("histogram edges and counts", size + copied),)


def cumsum(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of `cumsum` and `cumprod`: a copy of the input in the result's type, where that is another type."""
    del machine
    values = argument(call, 0, "self")
    wanted = plain_value(call, 2, "dtype")
    if wanted is None:
        dtype = "int64" if values.dtype in _INTEGERS else values.dtype
    else:
        dtype = str(wanted).removeprefix("torch.")
    if dtype == values.dtype:
        return ()
    return (Workspace("input in the result's type", numel(shape_of(values)) * item_bytes(dtype)),)
