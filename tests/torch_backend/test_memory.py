"""What forward saves is freed: with backward, or when the forward is dropped."""

import gc
import weakref

import torch
from torch import nn

from lowtide import measure_peak
from tests.torch_backend.pairs import Mlp, compile_lowtide, compile_torch, seeded


class Wide(nn.Module):
    """Saves its own output and a hidden activation."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Mlp()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x).exp()


def _compiled(model: nn.Module, rows: int = 64):
    call = compile_lowtide(model)
    call(torch.randn(rows, 8)).sum().backward()
    model.zero_grad()
    return call


def test_a_dropped_forward_is_freed():
    call = _compiled(seeded(Wide))
    x = torch.randn(64, 8)
    y = call(x)
    state = weakref.ref(y.untyped_storage())
    gc.disable()
    try:
        del y
        assert state() is None
    finally:
        gc.enable()


def test_a_dropped_forward_leaves_no_bytes():
    call = _compiled(seeded(Wide))
    x = torch.randn(64, 8)

    def drop():
        call(x)

    gc.collect()
    gc.disable()
    try:
        assert measure_peak(drop).left_bytes == 0
    finally:
        gc.enable()


def test_many_dropped_forwards_do_not_leak():
    call = _compiled(seeded(Wide))
    x = torch.randn(64, 8)
    gc.disable()
    try:

        def drop(times: int):
            for _ in range(times):
                call(x)

        one, many = measure_peak(lambda: drop(1)), measure_peak(lambda: drop(20))
    finally:
        gc.enable()
    assert many.left_bytes == 0
    assert many.peak_bytes == one.peak_bytes


def test_a_step_leaves_its_gradients_only():
    model = seeded(Wide)
    call = _compiled(model)
    x = torch.randn(64, 8)
    expected = sum(p.numel() * 4 for p in model.parameters())
    assert measure_peak(lambda: call(x).sum().backward()).left_bytes == expected


def test_backward_frees_the_state_while_its_output_is_still_held():
    call = _compiled(seeded(Wide), rows=1024)
    x = torch.randn(1024, 8)
    kept = []

    def step():
        y = call(x)
        y.sum().backward()
        kept.append(y.detach())

    left = measure_peak(step).left_bytes
    parameters = 4 * (8 * 16 + 16 + 16 * 4 + 4)
    assert left == kept[0].numel() * 4 + parameters


def test_inference_leaves_its_output_only():
    model = seeded(Wide)
    call = compile_lowtide(model)
    x = torch.randn(64, 8)
    kept = []
    with torch.no_grad():
        call(x)
        assert measure_peak(lambda: kept.append(call(x))).left_bytes == 64 * 4 * 4


def test_retained_graphs_are_freed_when_dropped():
    call = _compiled(seeded(Wide))
    x = torch.randn(64, 8, requires_grad=True)

    def step():
        loss = call(x).sum()
        torch.autograd.grad(loss, x, retain_graph=True)
        torch.autograd.grad(loss, x, retain_graph=True)

    step()
    gc.disable()
    try:
        assert measure_peak(step).left_bytes == 0
    finally:
        gc.enable()


def test_a_compiled_model_that_is_dropped_is_freed():
    model = seeded(Wide)
    call = _compiled(model)
    alive = weakref.ref(model)
    del model, call
    torch._dynamo.reset()
    gc.collect()
    assert alive() is None


def test_peak_is_no_higher_than_torch_compiles():
    peaks = []
    for compiler in (compile_torch, compile_lowtide):
        model = seeded(Wide)
        call = compiler(model)
        x = torch.randn(1024, 8)
        call(x).sum().backward()
        model.zero_grad()
        peaks.append(measure_peak(lambda call=call, x=x: call(x).sum().backward()).peak_bytes)
        torch._dynamo.reset()
    assert peaks[1] <= peaks[0] * 1.05
