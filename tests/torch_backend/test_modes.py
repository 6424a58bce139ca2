"""Training, no_grad, inference_mode and eval of the same module."""

import torch
from torch import nn

from tests.torch_backend.pairs import Mlp, assert_bitwise, assert_trains_like_torch_compile, compile_lowtide, seeded


def _agrees_with_eager(call, model, x):
    torch.testing.assert_close(call(x), model(x), rtol=1e-5, atol=1e-5)


def test_trains_like_torch_compile_on_batches_of_varying_size():
    assert_trains_like_torch_compile(Mlp, [(torch.randn(n, 8),) for n in (3, 5, 2)])


def test_no_grad_inference_mode_and_eval_agree_with_eager():
    model = seeded(Mlp)
    call = compile_lowtide(model)
    x = torch.randn(6, 8)
    with torch.no_grad():
        _agrees_with_eager(call, model, x)
        assert not call(x).requires_grad
    with torch.inference_mode():
        _agrees_with_eager(call, model, x)
        assert call(x).is_inference()
    model.eval()
    _agrees_with_eager(call, model, x)
    with torch.no_grad():
        _agrees_with_eager(call, model, torch.randn(9, 8))


def test_training_then_inference_then_training_of_the_same_module():
    model, reference = seeded(Mlp), seeded(Mlp)
    call = compile_lowtide(model)
    first, second = torch.randn(4, 8), torch.randn(7, 8)
    for f in (call, reference):
        f(first).square().sum().backward()
        with torch.no_grad():
            f(second)
        f(second).square().sum().backward()
    for p, q in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-5)


def test_gradient_mode_switches_inside_one_call():
    class Partly(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = Mlp()

        def forward(self, x):
            with torch.no_grad():
                target = self.body(x).softmax(-1)
            return self.body(x), target

    assert_trains_like_torch_compile(Partly, [(torch.randn(4, 8),)])


def test_inference_tensors_can_be_inputs_of_an_inference_call():
    model = seeded(Mlp)
    call = compile_lowtide(model)
    with torch.inference_mode():
        x = torch.randn(5, 8)
        expected = model(x)
        assert_bitwise(call(x), call(x))
        torch.testing.assert_close(call(x), expected, rtol=1e-5, atol=1e-5)


def test_module_called_with_keyword_arguments():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = Mlp()

        def forward(self, x, *, scale=None, offset=0):
            y = self.body(x) + offset
            return y if scale is None else y * scale

    model = seeded(Scaled)
    call = compile_lowtide(model)
    x, scale = torch.randn(3, 8), torch.randn(3, 1)
    torch.testing.assert_close(call(x=x, scale=scale), model(x, scale=scale), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(call(x, offset=3), model(x, offset=3), rtol=1e-5, atol=1e-5)


def test_empty_batch_gives_zero_gradients():
    model = seeded(Mlp)
    call = compile_lowtide(model)
    call(torch.randn(4, 8)).sum().backward()
    model.zero_grad()
    y = call(torch.randn(0, 8))
    assert y.shape == (0, 4)
    y.sum().backward()
    for p in model.parameters():
        assert_bitwise(p.grad, torch.zeros_like(p))


def test_double_precision_and_bfloat16_models():
    for dtype in (torch.float64, torch.bfloat16):
        assert_trains_like_torch_compile(
            lambda dtype=dtype: Mlp().to(dtype),
            [(torch.randn(4, 8, dtype=dtype),)],
            eager_tolerance=1e-6 if dtype is torch.float64 else None,
        )


def test_autocast_to_bfloat16():
    class Cast(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = Mlp()

        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16):
                return self.body(x)

    assert_trains_like_torch_compile(Cast, [(torch.randn(4, 8),)], eager_tolerance=None)


def test_autocast_around_the_call():
    model = seeded(Mlp)
    call = compile_lowtide(model)
    with torch.autocast("cpu", torch.bfloat16):
        y = call(torch.randn(4, 8))
    assert y.dtype is torch.bfloat16
    y.float().sum().backward()
    assert all(p.grad.dtype is torch.float32 for p in model.parameters())
