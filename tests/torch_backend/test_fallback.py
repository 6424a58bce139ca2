"""What lowtide cannot account for runs on torch's own path, and says so; the next call works."""

import pytest
import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

from lowtide import FallbackWarning
from lowtide.capture import find_backend
from lowtide.errors import LowtideError
from lowtide.lower.joint import UnsupportedGraphError
from lowtide.runtime.registry import compiled_programs
from tests.torch_backend.pairs import NON_LEAF_WARNING, Mlp, assert_bitwise, compile_lowtide, seeded


class Branching(nn.Module):
    """Chooses at run time: control flow that a program has no form for."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda t: self.linear(t).sin(), lambda t: self.linear(t).cos(), (x,))


def _programs(call) -> int:
    return len(compiled_programs.programs_of(find_backend(call)))


def _fallbacks(call) -> int:
    return len(compiled_programs.fallbacks_of(find_backend(call)))


@pytest.mark.parametrize("training", [True, False])
def test_control_flow_falls_back_and_is_reported(training: bool):
    model = seeded(Branching)
    call = compile_lowtide(model)
    x = torch.randn(3, 8)
    with torch.set_grad_enabled(training):
        with pytest.warns(FallbackWarning, match="torch's own path.\n.*\n *Found: "):
            y = call(x)
        torch.testing.assert_close(y, model(x), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(call(-x), model(-x), rtol=1e-5, atol=1e-5)
    if training:
        y.sum().backward()
        assert model.linear.weight.grad is not None
    assert (_programs(call), _fallbacks(call)) == (0, 1)


def test_without_fallback_it_is_an_error_and_the_next_call_works():
    model = seeded(Branching)
    call = compile_lowtide(model, options={"fallback": False})
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as found:
        call(torch.randn(3, 8))
    error = found.value.inner_exception
    assert isinstance(error, UnsupportedGraphError)
    assert all((error.what, error.found, error.where, error.fix))
    assert (_programs(call), _fallbacks(call)) == (0, 0)
    other = seeded(Mlp)
    again = compile_lowtide(other, options={"fallback": False})
    x = torch.randn(3, 8)
    torch.testing.assert_close(again(x), other(x), rtol=1e-5, atol=1e-5)
    assert (_programs(again), _fallbacks(again)) == (1, 0)


def test_an_error_after_lowering_leaves_nothing_registered(monkeypatch):
    def refuse(program):
        raise LowtideError("Refused.", found="a test", where="here", fix="nothing")

    model = seeded(Mlp)
    call = compile_lowtide(model)
    x = torch.randn(3, 8)
    with monkeypatch.context() as patched:
        patched.setattr("lowtide.torch_backend.verify_program", refuse)
        with pytest.warns(FallbackWarning, match="Refused"):
            call(x).sum().backward()
    assert (_programs(call), _fallbacks(call)) == (0, 1)
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    torch._dynamo.reset()
    call(x).sum().backward()
    assert_bitwise([p.grad for p in model.parameters()], expected)
    assert _programs(call) == 1


@pytest.mark.parametrize("lowering", ["inductor", "aten"])
def test_a_fault_of_lowtide_is_reported_and_the_model_runs(monkeypatch, lowering):
    def stumble(program):
        raise KeyError("buf3")

    model = seeded(Mlp)
    call = compile_lowtide(model, options={"lowering": lowering})
    strict = compile_lowtide(model, options={"lowering": lowering, "fallback": False})
    x = torch.randn(3, 8)
    with monkeypatch.context() as patched:
        patched.setattr("lowtide.torch_backend.verify_program", stumble)
        with pytest.warns(FallbackWarning, match="KeyError: 'buf3'\n.*graph"):
            torch.testing.assert_close(call(x), model(x), rtol=1e-5, atol=1e-5)
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="lowtide has a fault"):
            strict(x)


@NON_LEAF_WARNING
def test_one_graph_falls_back_and_the_others_do_not():
    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.branch, self.after = nn.Linear(8, 8), Branching(), nn.Linear(4, 4)

        def forward(self, x):
            y = self.before(x)
            torch._dynamo.graph_break()
            y = self.branch(y)
            torch._dynamo.graph_break()
            return self.after(y)

    model = seeded(Parts)
    call = compile_lowtide(model)
    x = torch.randn(3, 8)
    with pytest.warns(FallbackWarning):
        y = call(x)
    torch.testing.assert_close(y, model(x), rtol=1e-5, atol=1e-5)
    y.sum().backward()
    assert model.before.weight.grad is not None
    assert (_programs(call), _fallbacks(call)) == (2, 1)


def test_traceable_tensor_subclasses_run_as_programs_of_their_parts():
    model = seeded(Mlp)
    call = compile_lowtide(model)
    a, b = torch.randn(3, 8, requires_grad=True), torch.randn(3, 8, requires_grad=True)
    x = TwoTensor(a, b)
    y = call(x)
    expected = model(TwoTensor(a, b))
    torch.testing.assert_close((y.a, y.b), (expected.a, expected.b), rtol=1e-5, atol=1e-5)
    y.sum().backward()
    assert isinstance(model.inner.weight.grad, TwoTensor)


def test_compiled_autograd_gets_torchs_own_path():
    model, reference = seeded(Mlp), seeded(Mlp)
    x = torch.randn(3, 8)
    reference(x).square().sum().backward()
    call = compile_lowtide(model)
    with pytest.warns(FallbackWarning, match="Compiled autograd"), _compiled_autograd():
        call(x).square().sum().backward()
    torch.testing.assert_close(model.inner.weight.grad, reference.inner.weight.grad, rtol=1e-4, atol=1e-5)


def test_compiled_autograd_switched_on_after_forward_is_an_error():
    loss = compile_lowtide(seeded(Mlp))(torch.randn(3, 8)).sum()
    with pytest.raises(Exception, match="Compiled autograd replays the graphs"), _compiled_autograd():
        loss.backward()


def _compiled_autograd():
    return torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager"))
