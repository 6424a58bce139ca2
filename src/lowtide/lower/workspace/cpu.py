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
from lowtide.lower.workspace.convolution import convolution, convolution_backward
from lowtide.lower.workspace.elementwise import ELEMENTWISE
from lowtide.lower.workspace.groups import grouped_mm_fallback
from lowtide.lower.workspace.indexing import embedding_dense_backward, index, scatter_reduce
from lowtide.lower.workspace.machine import CpuMachine
from lowtide.lower.workspace.masked_index import masked_index_put_accumulate
from lowtide.lower.workspace.ordering import cumsum, histc, sort
from lowtide.lower.workspace.pooling import adaptive_average_backward, pool
from lowtide.lower.workspace.products import addmm, baddbmm, bmm, mm
from lowtide.lower.workspace.reductions import REDUCTIONS

WorkspaceFormula = Callable[[Call, CpuMachine], tuple[Workspace, ...]]


def nothing(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """No workspace, whatever the arguments."""
    del call, machine
    return ()


# Operators that never take a workspace, for any arguments that were tried: see docs/workspaces.md.
_NOTHING = (
    "aten._local_scalar_dense",
    "aten.embedding",
    "aten.empty",
    "aten.gather",
    "aten.grid_sampler_2d",
    "aten.index_add",
    "aten.index_select",
    "aten.nonzero",
    "aten.rand",
    "aten.randint",
    "aten.randn",
    "aten.scatter",
    "aten.scatter_add",
    "aten.topk",
)
_POOLS = (
    "aten._adaptive_avg_pool2d",
    "aten.adaptive_max_pool2d",
    "aten.adaptive_max_pool2d_backward",
    "aten.avg_pool2d",
    "aten.avg_pool2d_backward",
    "aten.max_pool2d_with_indices",
    "aten.max_pool2d_with_indices_backward",
)

CPU_WORKSPACES: Mapping[str, WorkspaceFormula] = MappingProxyType(
    {
        **ELEMENTWISE,
        **REDUCTIONS,
        **dict.fromkeys(_NOTHING, nothing),
        **dict.fromkeys(_POOLS, pool),
        "aten._scaled_dot_product_flash_attention_for_cpu": attention_forward,
        "aten._scaled_dot_product_flash_attention_for_cpu_backward": attention_backward,
        "aten._adaptive_avg_pool2d_backward": adaptive_average_backward,
        "aten.mm": mm,
        "aten.addmm": addmm,
        "aten.bmm": bmm,
        "aten.baddbmm": baddbmm,
        "aten.convolution": convolution,
        "aten.convolution_backward": convolution_backward,
        "aten.sort": sort,
        "aten.histc": histc,
        "aten.cumsum": cumsum,
        "aten.cumprod": cumsum,
        "aten.index": index,
        "aten.index_put": index,
        "aten._unsafe_index": index,
        "aten._unsafe_index_put": index,
        "aten._unsafe_masked_index_put_accumulate": masked_index_put_accumulate,
        "aten.scatter_reduce": scatter_reduce,
        "aten.embedding_dense_backward": embedding_dense_backward,
        "transformers.grouped_mm_fallback": grouped_mm_fallback,
        "transformers.grouped_mm_fallback_backward": grouped_mm_fallback,
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
    """Return the workspace of a CPU operator: none, known sizes, or a named unknown one.

    An operator that changes its first argument in place (`scatter_add_`) shares the formula of the other form.
    """
    family = operator_family(call.operator)
    formula = CPU_WORKSPACES.get(family) or CPU_WORKSPACES.get(family.removesuffix("_"))
    # The formulas hold for real numbers: operators on complex ones copy and split their operands.
    if formula is None or any(entry.dtype.startswith("complex") for entry in call.arguments.values()):
        return (Workspace(call.operator, None),)
    return formula(call, machine)
