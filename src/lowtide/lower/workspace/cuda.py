"""Workspace of library operators on CUDA: named, and unknown.

Nothing was measured on a GPU yet, so no size is claimed. What is known from torch's sources:

- cuBLAS: torch hands each handle and stream one block from its caching allocator at the first product, 8.125 MiB by
  default and 32 MiB on compute capability 9.0, and keeps it. The block is there before a step that is not the first.
- Attention: memory-efficient and flash attention allocate temporaries in their gradients (accumulators in float32,
  row sums, per-split copies), whose sizes depend on the kernel that is chosen for the card.
- cuDNN: chooses a convolution's algorithm, and with it the workspace, when it first sees a shape.

Generated (Triton) kernels have no hidden workspace: what they need is a buffer of the program.
"""

from lowtide.ir import Workspace
from lowtide.lower.workspace.call import Call
from lowtide.lower.workspace.cpu import operator_family

_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "addmv", "mv", "dot", "_int_mm", "_scaled_mm", "_grouped_mm")
# These write into outputs that are allocated for them, element by element.
_NONE = ("randint", "copy_", "fill_", "bernoulli_", "random_", "zero_")


def find_cuda_workspace(call: Call) -> tuple[Workspace, ...]:
    """Return the workspace of an operator on CUDA: none, or named and unknown.

    Example:
        >>> find_cuda_workspace(Call("extern_kernels.mm", {}, device="cuda:0"))
        (Workspace(name='cuBLAS workspace', size=None),)
    """
    name = operator_family(call.operator).partition(".")[2]
    if name in _NONE:
        return ()
    if name in _PRODUCTS:
        return (Workspace("cuBLAS workspace", None),)
    if "attention" in name:
        return (Workspace("attention workspace", None),)
    if "convolution" in name or "cudnn" in name:
        return (Workspace("cuDNN workspace", None),)
    return (Workspace(call.operator, None),)
