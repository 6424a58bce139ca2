"""Random operators draw what torch.compile draws, and backward replays what forward drew."""

import pytest
import torch
from torch import nn

from tests.torch_backend.pairs import (
    Mlp,
    assert_bitwise,
    assert_trains_like_torch_compile,
    compile_lowtide,
    compile_torch,
    seeded,
)


def test_dropout_draws_what_torch_compile_draws():
    assert_trains_like_torch_compile(
        lambda: Mlp(dropout=0.5), [(torch.randn(n, 8),) for n in (6, 9)], eager_tolerance=None
    )


def test_dropout_differs_between_calls_and_repeats_with_the_seed():
    call = compile_lowtide(seeded(lambda: Mlp(dropout=0.5)))
    x = torch.randn(6, 8)
    torch.manual_seed(5)
    first, second = call(x), call(x)
    torch.manual_seed(5)
    assert_bitwise(call(x), first)
    assert_bitwise(call(x), second)
    assert not torch.equal(first, second)


def test_several_random_operators_draw_in_order():
    def f(x):
        a = torch.rand_like(x)
        b = torch.randn(x.shape[0], 3)
        c = torch.randint(0, 10, (x.shape[0],))
        d = torch.rand_like(x) + a
        return a, b, c, d, torch.nn.functional.dropout(x, 0.3)

    results = []
    for compiler in (compile_torch, compile_lowtide):
        torch._dynamo.reset()
        call = compiler(f)
        torch.manual_seed(7)
        results.append([call(torch.ones(n, 4)) for n in (4, 6)])
    assert_bitwise(results[1], results[0])


@pytest.mark.parametrize("training", [True, False])
def test_random_numbers_of_torch_itself(training: bool):
    """With fallback_random the draws are eager's own, operator by operator."""
    model = seeded(lambda: Mlp(dropout=0.5)).train(training)
    call = compile_lowtide(model, options={"fallback_random": True})
    x = torch.randn(6, 8)
    torch.manual_seed(5)
    expected = model(x)
    torch.manual_seed(5)
    torch.testing.assert_close(call(x), expected, rtol=1e-5, atol=1e-5)


def test_two_forwards_before_a_backward_keep_their_own_masks():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(64))

        def forward(self, x):
            return nn.functional.dropout(x * self.scale, 0.5)

    model = seeded(Masked)
    call = compile_lowtide(model)
    x = torch.ones(1, 64)
    y, z = call(x), call(x)
    assert not torch.equal(y, z)
    for out in (y, z):
        model.zero_grad()
        out.sum().backward()
        assert_bitwise(model.scale.grad, out.detach()[0])
