"""Bytes that library operators take beyond their outputs while they run."""

from lowtide.ir import Workspace
from lowtide.lower.workspace.call import Argument, Call
from lowtide.lower.workspace.cpu import find_cpu_workspace
from lowtide.lower.workspace.cuda import find_cuda_workspace
from lowtide.lower.workspace.machine import CpuMachine


def find_workspace(call: Call, machine: CpuMachine | None = None) -> tuple[Workspace, ...]:
    """Return the workspace of a library call; an operator that is not modelled has a named, unknown one.

    Args:
        call: The operator and its arguments.
        machine: Machine parameters of the CPU; by default `threads` is a dimension variable of that name.
    """
    if call.device.startswith("cuda"):
        return find_cuda_workspace(call)
    return find_cpu_workspace(call, CpuMachine() if machine is None else machine)


__all__ = ["Argument", "Call", "CpuMachine", "find_workspace"]
