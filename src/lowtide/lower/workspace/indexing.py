"""Workspace of reading and writing by index on the CPU."""

from lowtide.ir import Workspace
from lowtide.lower.workspace.call import Argument, Call, argument, plain_value
from lowtide.lower.workspace.layout import is_not_contiguous, shape_of, stride_of, tensor_size
from lowtide.lower.workspace.machine import CpuMachine


def index(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of `index` and `index_put`: nothing for 64-bit indices; masks and other types are not modelled."""
    del machine
    indices = argument(call, 1, "indices").value
    if not isinstance(indices, tuple):
        return (Workspace(call.operator, None),)
    entries = [entry for entry in indices if entry is not None]
    if all(_is_index(entry) or (isinstance(entry, Argument) and _is_absent(entry)) for entry in entries):
        return ()
    return (Workspace(call.operator, None),)


def scatter_reduce(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of `scatter_reduce`: nothing, except for means, which are not modelled."""
    del machine
    if plain_value(call, 4, "reduce") in ("sum", "prod", "amax", "amin"):
        return ()
    return (Workspace(call.operator, None),)


def embedding_dense_backward(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of `embedding_dense_backward`: a dense copy of a gradient that is not contiguous."""
    del machine
    gradient = argument(call, 0, "grad_output")
    size = is_not_contiguous(shape_of(gradient), stride_of(gradient)) * tensor_size(gradient)
    if size.is_constant and size.constant_value == 0:
        return ()
    return (Workspace("dense copy of the gradient", size),)


def _is_index(entry: object) -> bool:
    return isinstance(entry, Argument) and entry.shape is not None and entry.dtype == "int64"


def _is_absent(entry: Argument) -> bool:
    return entry.shape is None and entry.value is None
