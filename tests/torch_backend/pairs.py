"""Runs the same calls under eager, torch.compile and lowtide, and compares what they leave behind."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn

# dynamo looks at the .grad of every input.
NON_LEAF_WARNING = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")


class Mlp(nn.Module):
    """The smallest model with saved activations: two linear layers around a GELU."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 16)
        self.outer = nn.Linear(16, 4)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.outer(self.dropout(nn.functional.gelu(self.inner(x))))


def seeded(make: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    """A model whose weights depend on the seed alone."""
    torch.manual_seed(seed)
    return make()


def compile_lowtide(model: Any, **kwargs: Any) -> Any:
    return torch.compile(model, backend="lowtide", dynamic=True, **kwargs)


def compile_torch(model: Any, **kwargs: Any) -> Any:
    return torch.compile(model, backend="inductor", dynamic=True, **kwargs)


def total(outputs: Any) -> torch.Tensor:
    """A loss: the weighted sum of every float output that needs a gradient."""
    leaves = [t for t in tensors(outputs) if t.requires_grad]
    return sum(((k + 1.0) * (t.float() * t.float()).sum() for k, t in enumerate(leaves)), torch.zeros(()))


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors in nested containers, in order."""
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def run_steps(
    model: nn.Module, call: Callable[..., Any], batches: Sequence[Sequence[Any]], loss: Callable[[Any], Any] = total
) -> dict[str, Any]:
    """Train `model` through `call` on the batches and return all that can be seen afterwards."""
    seen: dict[str, Any] = {"outputs": [], "inputs": []}
    for batch in batches:
        batch = copy.deepcopy(list(batch))
        for t in tensors(batch):
            if t.is_floating_point():
                t.requires_grad_()
        torch.manual_seed(3)
        outputs = call(*batch)
        seen["outputs"].append([t.detach().clone() for t in tensors(outputs)])
        loss(outputs).backward()
        seen["inputs"].append([t.grad for t in tensors(batch)])
    seen["gradients"] = {name: p.grad for name, p in model.named_parameters()}
    seen["buffers"] = {name: b.clone() for name, b in model.named_buffers()}
    return seen


def assert_bitwise(actual: Any, expected: Any) -> None:
    """Equal in every bit, in nested containers."""
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


def assert_trains_like_torch_compile(
    make: Callable[[], nn.Module],
    batches: Sequence[Sequence[Any]],
    *,
    loss: Callable[[Any], Any] = total,
    eager_tolerance: float | None = 1e-4,
) -> None:
    """Bitwise equal to torch.compile on every batch, and close to eager unless the tolerance is None."""
    results = {}
    for kind, compiler in (("eager", None), ("torch", compile_torch), ("lowtide", compile_lowtide)):
        if kind == "eager" and eager_tolerance is None:
            continue
        model = seeded(make)
        call = model if compiler is None else compiler(model)
        results[kind] = run_steps(model, call, batches, loss)
    assert_bitwise(results["lowtide"], results["torch"])
    if eager_tolerance is not None:
        torch.testing.assert_close(results["lowtide"], results["eager"], rtol=eager_tolerance, atol=eager_tolerance)
