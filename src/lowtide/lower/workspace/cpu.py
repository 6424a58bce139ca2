"""The registry of CPU operators whose workspace is known.

**What a workspace is.** While an operator runs, the most bytes alive at once are

    live before the call + declared outputs + workspace

where "most" is over the whole call: temporaries that die before an output is allocated count only by what they add to
that maximum. Counted are allocations through torch's CPU allocator, which is what `lowtide.measure_peak` sees. Memory
that a library (oneDNN, MKL, OpenMP, the C++ heap) takes for itself is not counted.

An operator that is not in the registry has one unknown workspace of its own name: it is reported, never taken for 0.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from lowtide.ir import Workspace
from lowtide.lower.workspace.attention import attention_backward, attention_forward
from lowtide.lower.workspace.call import Call
from lowtide.lower.workspace.machine import CpuMachine

WorkspaceFormula = Callable[[Call, CpuMachine], tuple[Workspace, ...]]

CPU_WORKSPACES: Mapping[str, WorkspaceFormula] = MappingProxyType(
    {
        "aten._scaled_dot_product_flash_attention_for_cpu": attention_forward,
        "aten._scaled_dot_product_flash_attention_for_cpu_backward": attention_backward,
    }
)


def operator_family(operator: str) -> str:
    """Return namespace and name of an operator without its overload.

    Example:
        >>> operator_family("aten.sort.stable"), operator_family("extern_kernels.mm")
        ('aten.sort', 'aten.mm')
    """
    namespace, _, rest = operator.removeprefix("torch.ops.").partition(".")
    name = rest.partition(".")[0]
    return f"{'aten' if namespace == 'extern_kernels' else namespace}.{name}"


def find_cpu_workspace(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Return the workspace of a CPU operator: none, known sizes, or a named unknown one."""
    formula = CPU_WORKSPACES.get(operator_family(call.operator))
    if formula is None:
        return (Workspace(call.operator, None),)
    return formula(call, machine)
