"""Saved-tensor hooks around a compiled module, and activation checkpointing inside of one."""

import warnings

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from lowtide import FallbackWarning
from lowtide.capture import find_backend
from lowtide.lower.joint import UnsupportedGraphError
from lowtide.runtime.registry import compiled_programs
from tests.torch_backend.pairs import Mlp, assert_bitwise, assert_trains_like_torch_compile, compile_lowtide, seeded


def _gradients(model: nn.Module, loss: torch.Tensor) -> list[torch.Tensor]:
    model.zero_grad()
    loss.backward()
    return [p.grad.clone() for p in model.parameters()]


def test_checkpoint_around_a_compiled_block():
    model = seeded(Mlp)
    call = compile_lowtide(model)
    x = torch.randn(5, 8, requires_grad=True)
    expected = _gradients(model, model(x).square().sum())
    with pytest.warns(FallbackWarning, match="Saved-tensor hooks") as seen:
        loss = checkpoint(call, x, use_reentrant=False).square().sum()
    assert sum(w.category is FallbackWarning for w in seen) == 1
    torch.testing.assert_close(_gradients(model, loss), expected, rtol=1e-4, atol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        again = checkpoint(call, x, use_reentrant=False).square().sum()
        torch.testing.assert_close(_gradients(model, again), expected, rtol=1e-4, atol=1e-5)


def test_reentrant_checkpoint_around_a_compiled_block_needs_no_hooks():
    model = seeded(Mlp)
    call = compile_lowtide(model)
    x = torch.randn(5, 8, requires_grad=True)
    expected = _gradients(model, model(x).square().sum())
    loss = checkpoint(call, x, use_reentrant=True).square().sum()
    torch.testing.assert_close(_gradients(model, loss), expected, rtol=1e-4, atol=1e-5)


def test_hooks_see_every_saved_tensor_of_a_call_under_them_and_programs_run_outside():
    model = seeded(Mlp)
    call = compile_lowtide(model)
    x = torch.randn(5, 8)
    expected = _gradients(model, call(x).square().sum())
    programs = len(compiled_programs.programs_of(find_backend(call)))
    packed = []
    with (
        pytest.warns(FallbackWarning, match="Saved-tensor hooks"),
        torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t.shape) or t, lambda t: t),
    ):
        loss = call(x).square().sum()
    assert torch.Size([5, 16]) in packed, "the hidden activation"
    torch.testing.assert_close(_gradients(model, loss), expected, rtol=1e-5, atol=1e-6)
    assert_bitwise(_gradients(model, call(x).square().sum()), expected)
    assert len(compiled_programs.programs_of(find_backend(call))) == programs


def test_first_call_under_hooks_and_later_calls_without():
    model = seeded(Mlp)
    call = compile_lowtide(model)
    x = torch.randn(5, 8)
    expected = _gradients(model, model(x).square().sum())
    with pytest.warns(FallbackWarning), torch.autograd.graph.save_on_cpu():
        loss = call(x).square().sum()
    torch.testing.assert_close(_gradients(model, loss), expected, rtol=1e-4, atol=1e-5)
    assert not compiled_programs.programs_of(find_backend(call))
    torch.testing.assert_close(_gradients(model, call(x).square().sum()), expected, rtol=1e-4, atol=1e-5)
    assert len(compiled_programs.programs_of(find_backend(call))) == 1
    other = torch.randn(7, 8)
    torch.testing.assert_close(call(other), model(other), rtol=1e-5, atol=1e-5)
    assert len(compiled_programs.programs_of(find_backend(call))) == 1


def test_hooks_do_not_matter_where_nothing_is_saved():
    model = seeded(Mlp).requires_grad_(False)
    call = compile_lowtide(model)
    x = torch.randn(5, 8)
    call(x)
    with torch.autograd.graph.save_on_cpu():
        torch.testing.assert_close(call(x), model(x), rtol=1e-5, atol=1e-5)


def test_backward_may_run_under_hooks():
    model = seeded(Mlp)
    call = compile_lowtide(model)
    x = torch.randn(5, 8)
    expected = _gradients(model, call(x).sum())
    loss = call(x).sum()
    with torch.autograd.graph.save_on_cpu():
        assert_bitwise(_gradients(model, loss), expected)


def test_activation_checkpointing_inside_the_compiled_region():
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = Mlp(), nn.Linear(4, 4)

        def forward(self, x):
            y = checkpoint(self.first, x, use_reentrant=False)
            return self.second(y)

    assert_trains_like_torch_compile(Checkpointed, [(torch.randn(n, 8),) for n in (4, 6)])


def test_recomputed_dropout_inside_the_compiled_region_draws_the_same_bits():
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = Mlp(dropout=0.5)

        def forward(self, x):
            return checkpoint(self.first, x, use_reentrant=False)

    assert_trains_like_torch_compile(Checkpointed, [(torch.randn(6, 8),)], eager_tolerance=None)
    # y = outer(mask * gelu(h)): with y = 0 wherever the mask is 0, gradients and outputs agree on the mask.
    model = seeded(Checkpointed)
    call = compile_lowtide(model)
    with torch.no_grad():
        model.first.outer.weight.copy_(torch.eye(4, 16))
        model.first.outer.bias.zero_()
    x = torch.randn(6, 8)
    y = call(x)
    y.sum().backward()
    used = model.first.outer.weight.grad[:, :4].diagonal()
    torch.testing.assert_close(used, y.detach().sum(0), rtol=1e-4, atol=1e-5)


def test_without_fallback_a_call_under_hooks_is_an_error_and_others_run():
    model = seeded(Mlp)
    call = compile_lowtide(model, options={"fallback": False})
    x = torch.randn(5, 8)
    call(x).sum().backward()
    with pytest.raises(UnsupportedGraphError, match="Saved-tensor hooks"), torch.autograd.graph.save_on_cpu():
        call(x)
    call(x).sum().backward()
