"""The pretence itself: what it answers, that it leaves no trace, and its errors."""

import importlib.util

import pytest
import torch
import torch._inductor.runtime.hints
import torch.utils._triton
from torch._subclasses import FakeTensorMode

from lowtide.lower.joint import UnsupportedGraphError
from lowtide.lower.pretend_cuda import (
    CARDS,
    NothingCapturedError,
    TritonMissingError,
    UnknownCardError,
    UntraceableCallError,
    lower_for_cuda,
    pretend_cuda,
)

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="Triton prints the kernels; it needs no GPU for that: pip install triton",
)
pytestmark = [pytest.mark.pretended_cuda]


@needs_triton
@pytest.mark.skipif(torch.cuda.is_available(), reason="a real device is there, so there is nothing to pretend")
def test_everything_is_put_back():
    methods = ("__invert__", "__getitem__", "copy_", "nonzero")
    before = [getattr(torch.Tensor, name) for name in methods]
    create = torch._inductor.runtime.hints.DeviceProperties.create
    with pretend_cuda("H200") as card:
        assert torch.cuda.is_available()
        assert torch.cuda.get_device_capability() == (9, 0)
        assert torch.utils._triton.has_triton()
        assert (
            torch._inductor.runtime.hints.DeviceProperties.create(torch.device("cuda:0")).multi_processor_count == 132
        )
        assert card is CARDS["H200"]
    assert not torch.cuda.is_available()
    assert not torch.utils._triton.has_triton()
    assert [getattr(torch.Tensor, name) for name in methods] == before
    assert torch._inductor.runtime.hints.DeviceProperties.create == create


@needs_triton
def test_everything_is_put_back_after_an_error():
    with pytest.raises(ZeroDivisionError), pretend_cuda():
        raise ZeroDivisionError
    assert torch.cuda.is_available() == (torch.version.cuda is not None and torch.cuda.device_count() > 0)


@needs_triton
def test_methods_agree_with_real_indexing():
    indices = [0, -1, (slice(1, 3), 2), (None, 1), (..., 0), (slice(None), None, slice(None, None, 2)), (1, ..., None)]
    real = torch.arange(60).view(3, 4, 5)
    with pretend_cuda(), FakeTensorMode():
        fake = torch.empty(3, 4, 5, dtype=torch.int64, device="cuda:0")
        rows, mask = (
            torch.empty(2, dtype=torch.int64, device="cuda:0"),
            torch.empty(3, dtype=torch.bool, device="cuda:0"),
        )
        got = [fake[index].shape for index in indices]
        assert fake[rows].shape == (2, 4, 5)
        assert fake[:, rows, 1].shape == (3, 2)
        assert (~mask).dtype == torch.bool
    assert got == [real[index].shape for index in indices]


@needs_triton
def test_the_cpu_compiles_as_before():
    def step(x: torch.Tensor) -> torch.Tensor:
        return (x.softmax(-1) * 2).sum()

    torch._dynamo.reset()
    x = torch.randn(5, 7, requires_grad=True)
    program = lower_for_cuda(step, x)
    assert {buffer.device for buffer in program.buffers.values()} == {"cuda:0"}
    compiled = torch.compile(step, backend="inductor", dynamic=True)
    torch.testing.assert_close(compiled(x), step(x))


def test_an_unknown_card_is_refused_in_the_name_of_the_function_called():
    with pytest.raises(UnknownCardError, match="H100") as refused, pretend_cuda("H1000"):
        pass
    assert refused.value.card == "H1000"
    assert refused.value.where == "pretend_cuda(card=...)"
    with pytest.raises(UnknownCardError) as refused:
        lower_for_cuda(torch.relu, torch.randn(3), card="H1000")
    assert refused.value.where == "lower_for_cuda(card=...)"


def test_without_triton_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "triton" else real(name, *rest)
    )
    with pytest.raises(TritonMissingError, match="pip install triton"), pretend_cuda():
        pass
    with pytest.raises(TritonMissingError):
        lower_for_cuda(torch.relu, torch.randn(3))


@needs_triton
def test_a_call_without_tensors_has_nothing_to_lower():
    torch._dynamo.reset()
    with pytest.raises(NothingCapturedError):
        lower_for_cuda(lambda: 3)


@needs_triton
def test_a_call_in_two_graphs_is_refused():
    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    torch._dynamo.reset()
    with pytest.raises(UntraceableCallError, match="one graph"):
        lower_for_cuda(broken, torch.randn(3))


@needs_triton
def test_errors_of_the_adapter_come_through(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> object:
        raise UnsupportedGraphError("refused.", found="it", where="here", fix="that")

    torch._dynamo.reset()
    monkeypatch.setattr("lowtide.lower.inductor.reader.triton_roles", refuse)
    with pytest.raises(UnsupportedGraphError, match="refused"):
        lower_for_cuda(lambda x: x.relu(), torch.randn(3))
