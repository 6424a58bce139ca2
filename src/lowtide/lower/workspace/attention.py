"""Workspace of scaled dot-product attention on the CPU, ATen's blocked "flash" kernels.

Both kernels cut queries into blocks and keys into blocks of 512, and give each thread one scratch area for one pair of
blocks. The query block is 32, from 192 queries on 64, from 768 queries on 256, and never longer than the sequence:

    queries   1 .. 191   192 .. 767   768 ..
    block        32          64         256

Derived from the kernels' source and checked by measurement (see docs/workspaces.md). Exact for lengths of at least 1,
for float32, float64, bfloat16 and float16, with and without a mask, causal or not. Grouped queries, dropout and padding
of the head do not reach these operators: torch rewrites them before.
"""

from lowtide.ir import Workspace, item_bytes
from lowtide.lower.workspace.call import Argument, Call, argument
from lowtide.lower.workspace.layout import is_at_least, is_not_contiguous, permuted, shape_of, stride_of, tensor_size
from lowtide.lower.workspace.machine import CpuMachine
from lowtide.symbolic import Expr, minimum

_KEY_BLOCK = 512
_REDUCED = ("float16", "bfloat16")
_SEQUENCE_FIRST = (0, 2, 1, 3)


def attention_forward(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of `_scaled_dot_product_flash_attention_for_cpu`.

    Per thread, in the accumulation type: scores (query block × key block), running maximum and sum (one per query of
    the block each), and the output block. Half-precision types keep a second copy of the scores in their own type.

    Guarantee: exact, except on machines that pack float16 operands, where it is unknown.
    """
    query, key = argument(call, 0, "query"), argument(call, 1, "key")
    if _may_pack(query, machine):
        return (Workspace("attention blocks", None),)
    queries, keys = _blocks(shape_of(query)[2], shape_of(key)[2])
    accumulated = queries * keys + 2 * queries + queries * shape_of(query)[3]
    size = accumulated * _accumulation_bytes(query)
    if query.dtype in _REDUCED:
        size = size + queries * keys * item_bytes(query.dtype)
    return (Workspace("attention blocks", machine.threads * size),)


def attention_backward(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of `_scaled_dot_product_flash_attention_for_cpu_backward`.

    Per thread: scores and their gradient (query block × key block each), and row sums for one query block. Half
    precision keeps both once more in its own type. A gradient of the output that does not lie densely in the order
    batch, sequence, head, channel is copied first.

    Guarantee: exact. Row sums are allocated by each thread for itself: see `CpuMachine.counts_workers`.
    """
    gradient, query, key = argument(call, 0, "grad_out"), argument(call, 1, "query"), argument(call, 2, "key")
    batch, heads, length, _ = shape_of(query)
    queries, keys = _blocks(length, shape_of(key)[2])
    size = 2 * queries * keys * _accumulation_bytes(query)
    if query.dtype in _REDUCED:
        size = size + 2 * queries * keys * item_bytes(query.dtype)
    rows = queries * _accumulation_bytes(query)
    if machine.counts_workers:
        rows = rows * minimum(machine.threads, batch * heads)
    copied = is_not_contiguous(
        permuted(shape_of(gradient), _SEQUENCE_FIRST), permuted(stride_of(gradient), _SEQUENCE_FIRST)
    )
    return (
        Workspace("attention blocks", machine.threads * size),
        Workspace("attention row sums", rows),
        *_nonzero("dense copy of the output's gradient", copied * tensor_size(gradient)),
    )


def _blocks(query_length: Expr, key_length: Expr) -> tuple[Expr, Expr]:
    block = 32 + 32 * is_at_least(query_length, 192) + 192 * is_at_least(query_length, 768)
    return minimum(query_length, block), minimum(key_length, _KEY_BLOCK)


def _accumulation_bytes(tensor: Argument) -> int:
    return 8 if tensor.dtype == "float64" else 4


def _may_pack(tensor: Argument, machine: CpuMachine) -> bool:
    return tensor.dtype in _REDUCED and machine.packs_reduced is not False


def _nonzero(name: str, size: Expr) -> tuple[Workspace, ...]:
    return () if size.is_constant and size.constant_value == 0 else (Workspace(name, size),)
