"""Bytes that library operators take beyond their outputs while they run."""

from lowtide.ir import Workspace
from lowtide.lower.workspace.call import Argument, Call
from lowtide.lower.workspace.cpu import find_cpu_workspace
from lowtide.lower.workspace.cuda import find_cuda_workspace
from lowtide.lower.workspace.machine import CpuMachine


def find_workspace(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Return the workspace of a library call; an operator that is not modelled has a named, unknown one.

    Args:
        call: The operator and its arguments.
        machine: The CPU that the call runs on, if it is no call for a GPU.
    """
    if call.device.startswith("cuda"):
        return find_cuda_workspace(call)
    return find_cpu_workspace(call, machine)


__all__ = ["Argument", "Call", "CpuMachine", "find_workspace"]
