"""What autograd promises about backward: order, repetition, accumulation, versions, refusal."""

import threading

import pytest
import torch
import torch._functorch.config as functorch_config
from torch import nn

from tests.torch_backend.pairs import Mlp, assert_bitwise, compile_lowtide, compile_torch, seeded


class Exponential(nn.Module):
    """Saves its own output, as autograd's formula for exp does."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x)


def _gradients(model: nn.Module) -> list[torch.Tensor]:
    found = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    return found


def test_two_forwards_before_their_backwards_in_either_order():
    model = seeded(Mlp)
    call = compile_lowtide(model)
    a, b = torch.randn(4, 8), torch.randn(6, 8)
    expected = []
    for x in (a, b):
        call(x).square().sum().backward()
        expected.append(_gradients(model))
    for order in ((0, 1), (1, 0)):
        losses = [call(x).square().sum() for x in (a, b)]
        for k in order:
            losses[k].backward()
            assert_bitwise(_gradients(model), expected[k])


def test_gradients_accumulate():
    model = seeded(Mlp)
    call = compile_lowtide(model)
    x = torch.randn(4, 8)
    call(x).sum().backward()
    once = [p.grad.clone() for p in model.parameters()]
    call(x).sum().backward()
    assert_bitwise([p.grad for p in model.parameters()], [g + g for g in once])


def test_retain_graph_gives_equal_gradients_twice():
    model = seeded(Mlp)
    call = compile_lowtide(model)
    x = torch.randn(5, 8, requires_grad=True)
    call(x).square().sum().backward()
    expected = [*_gradients(model), x.grad.clone()]
    loss = call(x).square().sum()
    for _ in range(3):
        x.grad = None
        loss.backward(retain_graph=True)
        assert_bitwise([*_gradients(model), x.grad], expected)
    x.grad = None
    loss.backward()
    assert_bitwise([*_gradients(model), x.grad], expected)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


def test_second_backward_without_retain_graph_is_autograds_error():
    model = seeded(Mlp)
    loss = compile_lowtide(model)(torch.randn(5, 8)).sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


@pytest.mark.parametrize("compiler", [compile_torch, compile_lowtide], ids=["torch", "lowtide"])
def test_double_backward_is_refused(compiler):
    model = seeded(Mlp)
    x = torch.randn(3, 8, requires_grad=True)
    with functorch_config.patch(donated_buffer=False):  # torch.compile refuses any kept graph otherwise
        (gradient,) = torch.autograd.grad(compiler(model)(x).square().sum(), x, create_graph=True)
    assert gradient.requires_grad
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        gradient.sum().backward()


@pytest.mark.parametrize("compiler", [compile_torch, compile_lowtide], ids=["torch", "lowtide"])
@pytest.mark.parametrize("make", [Mlp, Exponential], ids=["inputs saved", "output saved"])
def test_double_backward_is_refused_where_only_some_gradients_are_asked_for(compiler, make):
    """A second derivative must never be silently taken for zero."""
    x = torch.randn(3, 8, requires_grad=True)
    with functorch_config.patch(donated_buffer=False):
        (gradient,) = torch.autograd.grad(compiler(seeded(make))(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        torch.autograd.grad(gradient.square().sum() + x.sum(), x)


def test_input_saved_and_then_changed_in_place_is_autograds_error():
    model = seeded(Mlp)
    call = compile_lowtide(model)
    x = torch.randn(5, 8)
    loss = call(x).sum()
    x.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    loss = call(x).sum()
    with torch.no_grad():
        model.outer.weight.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    call(x).sum().backward()


def test_output_changed_in_place_before_backward_is_an_error_where_backward_reads_it():
    """torch.compile is silently wrong here, eager raises."""
    x = torch.randn(4, 8, requires_grad=True)
    y = compile_lowtide(Exponential())(x)
    y.detach().mul_(0.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize(
    "function",
    [lambda x: x.exp().view(2, -1), lambda x: x.exp().t(), lambda x: (x.exp(), x.exp().view(-1))[1]],
    ids=["view", "transpose", "one of two"],
)
def test_output_that_is_a_view_of_what_backward_reads_is_watched_too(function):
    x = torch.randn(4, 8, requires_grad=True)
    call = compile_lowtide(function)
    (expected,) = torch.autograd.grad(function(x).square().sum(), x)
    (actual,) = torch.autograd.grad(call(x).square().sum(), x)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
    y = call(x)
    y.detach().mul_(0.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    z = call(x)
    z.mul_(2.0)  # autograd records a change of what it handed out, as for any other tensor
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_output_changed_in_place_where_backward_does_not_read_it():
    model = seeded(Mlp)
    call = compile_lowtide(model)
    x = torch.randn(4, 8)
    y = call(x)
    y.detach().mul_(0.0)
    (y * torch.arange(4.0)).sum().backward()
    actual = _gradients(model)
    (model(x) * torch.arange(4.0)).sum().backward()
    torch.testing.assert_close(actual, _gradients(model), rtol=1e-4, atol=1e-5)


def test_backward_on_another_thread():
    model = seeded(Mlp)
    call = compile_lowtide(model)
    x = torch.randn(5, 8)
    call(x).sum().backward()
    expected = _gradients(model)
    loss = call(x).sum()
    worker = threading.Thread(target=loss.backward)
    worker.start()
    worker.join()
    assert_bitwise(_gradients(model), expected)


def test_forward_and_backward_on_several_threads_at_once():
    model = seeded(Mlp)
    call = compile_lowtide(model)
    inputs = [torch.randn(n, 8, requires_grad=True) for n in (3, 4, 5, 6)]
    expected = [torch.autograd.grad(call(x).square().sum(), x)[0] for x in inputs]
    found: list[torch.Tensor | None] = [None] * len(inputs)

    def work(k: int) -> None:
        for _ in range(5):
            found[k] = torch.autograd.grad(call(inputs[k]).square().sum(), inputs[k])[0]

    workers = [threading.Thread(target=work, args=(k,)) for k in range(len(inputs))]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert_bitwise(found, expected)


def test_only_some_gradients_asked_for():
    model = seeded(Mlp)
    call = compile_lowtide(model)
    x = torch.randn(5, 8, requires_grad=True)
    some = torch.autograd.grad(call(x).sum(), [model.outer.weight, x])
    full = torch.autograd.grad(model(x).sum(), [model.outer.weight, x])
    torch.testing.assert_close(some, full, rtol=1e-4, atol=1e-5)


def test_hooks_on_tensors_and_parameters_run():
    model = seeded(Mlp)
    call = compile_lowtide(model)
    seen = []
    model.inner.weight.register_hook(lambda g: seen.append("weight") or g * 2)
    y = call(torch.randn(5, 8))
    y.register_hook(lambda g: seen.append("output") or g * 3)
    y.sum().backward()
    assert seen == ["output", "weight"]


def test_anomaly_mode_and_grad_scaling_do_not_disturb():
    model = seeded(Mlp)
    call = compile_lowtide(model)
    x = torch.randn(5, 8)
    call(x).sum().backward()
    expected = _gradients(model)
    (call(x).sum() * 4.0).backward()
    assert_bitwise([g / 4.0 for g in _gradients(model)], expected)
