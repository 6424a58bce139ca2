"""CPU attention: predicted workspace is the measured one, to the byte."""

import pytest
import torch
from workspace_meter import Case, argument_of, assert_predicted_is_measured, case, predict_workspace

from lowtide.ir import contiguous_strides
from lowtide.lower.workspace import Argument, Call, CpuMachine, find_workspace
from lowtide.symbolic import const, dim, evaluate

FORWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default

# batch, heads, queries, keys, channels: both sides of 192 and 768 queries and of 512 keys, odd, prime, 1.
SHAPES = [
    (1, 1, 1, 1, 8),
    (1, 2, 31, 31, 16),
    (3, 2, 7, 600, 8),
    (2, 2, 33, 33, 64),
    (2, 3, 191, 191, 8),
    (1, 2, 192, 192, 8),
    (1, 2, 193, 100, 64),
    (1, 1, 400, 511, 8),
    (2, 1, 767, 513, 8),
    (1, 1, 768, 768, 8),
    (1, 1, 769, 1025, 8),
    (1, 2, 1031, 7, 24),
]
TYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


def _laid_out(shape: tuple[int, ...], order: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    base = torch.zeros([shape[i] for i in order], dtype=dtype)
    return base.permute([order.index(i) for i in range(4)])


def _cases(dtype: torch.dtype, threads: int) -> list[Case]:
    found: list[Case] = []
    every = 1 if dtype == torch.float32 else 2
    for number, (batch, heads, queries, keys, channels) in enumerate(SHAPES[threads % every :: every]):
        orders = [(0, 1, 2, 3), (0, 2, 1, 3)]
        order = orders[number % 2]
        query = _laid_out((batch, heads, queries, channels), order, dtype)
        key = _laid_out((batch, heads, keys, channels), order, dtype)
        mask = torch.zeros(batch, 1, queries, keys, dtype=dtype) if number % 3 else None
        causal = mask is None
        out, logsumexp = FORWARD(query, key, key, 0.0, causal, attn_mask=mask)
        found.append(case(FORWARD, query, key, key, 0.0, causal, attn_mask=mask, threads=threads))
        gradients = [_laid_out(tuple(out.shape), o, dtype) for o in (*orders, (2, 0, 1, 3))]
        gradients.append(torch.zeros(1, dtype=dtype).expand(out.shape))
        for gradient in gradients if queries < 100 else gradients[number % 2 : number % 2 + 1]:
            args = (gradient, query, key, key, out, logsumexp, 0.0, causal)
            found.append(case(BACKWARD, *args, attn_mask=mask, threads=threads))
    return found


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_attention_takes_what_is_predicted(dtype: torch.dtype, threads: int):
    assert_predicted_is_measured(_cases(dtype, threads))


def test_one_formula_serves_all_lengths():
    shape = (dim("batch"), dim("heads"), dim("queries"), const(64))
    query = Argument(shape, contiguous_strides(shape), "float32")
    call = Call(
        "aten._scaled_dot_product_flash_attention_for_cpu.default", {"query": query, "key": query, "value": query}
    )
    (found,) = find_workspace(call, CpuMachine())
    assert found.size is not None
    sizes = {n: evaluate(found.size, {"queries": n, "threads": 3}) for n in (191, 192, 767, 768)}
    per_thread = {n: block * (min(n, 512) + 2 + 64) * 4 for n, block in ((191, 32), (192, 64), (767, 64), (768, 256))}
    assert sizes == {n: 3 * size for n, size in per_thread.items()}


def test_is_unknown_where_half_precision_may_be_packed():
    query = torch.zeros(1, 1, 4, 8, dtype=torch.float16)
    arguments = {"query": argument_of(query), "key": argument_of(query)}
    (found,) = find_workspace(Call(str(FORWARD), arguments), CpuMachine(packs_reduced=None))
    assert found.size is None


def test_worker_threads_are_counted_on_request():
    item = _cases(torch.float32, 2)[6]
    assert item.operator is BACKWARD
    visible = predict_workspace(item)
    query = item.args[1]
    assert isinstance(query, torch.Tensor)
    arguments = {n: argument_of(t) for n, t in zip(("grad_out", "query", "key"), item.args, strict=False)}
    parts = find_workspace(Call(str(BACKWARD), arguments), CpuMachine(counts_workers=True))
    total = sum(evaluate(part.size, {"threads": 2}) for part in parts if part.size is not None)
    assert visible is not None
    assert total - visible == min(query.shape[2], 32) * 4
