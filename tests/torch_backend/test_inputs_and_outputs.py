"""Inputs that are changed, shared or strided; outputs that alias, repeat or are no tensors."""

import pytest
import torch
from torch import nn

from tests.torch_backend.pairs import (
    NON_LEAF_WARNING,
    Mlp,
    assert_bitwise,
    assert_trains_like_torch_compile,
    compile_lowtide,
    compile_torch,
    run_steps,
    seeded,
)


def _both(function, *inputs, grad: bool = False):
    """Outputs, gradients and final inputs of a function under torch.compile and lowtide."""
    results = []
    for compiler in (compile_torch, compile_lowtide):
        torch._dynamo.reset()
        given = [t.clone().requires_grad_(grad) if isinstance(t, torch.Tensor) else t for t in inputs]
        outputs = compiler(function)(*given)
        results.append((outputs, given))
    return results


def test_batch_norm_statistics_are_updated():
    class Normalised(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 6)
            self.norm = nn.BatchNorm1d(6)

        def forward(self, x):
            return self.norm(self.linear(x)).relu()

    assert_trains_like_torch_compile(Normalised, [(torch.randn(n, 8),) for n in (4, 7)])


def test_user_changes_an_input_in_place():
    def f(x, y):
        x.add_(1.0)
        return (x * y).sum(0)

    (theirs, seen_theirs), (ours, seen_ours) = _both(f, torch.randn(5, 8), torch.randn(5, 8))
    assert_bitwise(ours, theirs)
    assert_bitwise(seen_ours, seen_theirs)
    x = torch.randn(5, 8)
    version = x._version
    compile_lowtide(f)(x, torch.randn(5, 8))
    assert x._version > version


def test_input_changed_in_place_while_training():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = Mlp()
            self.register_buffer("count", torch.zeros(8))

        def forward(self, x):
            self.count.add_(x.detach().sum(0))
            return self.body(x + self.count)

    assert_trains_like_torch_compile(Counting, [(torch.randn(n, 8),) for n in (4, 7)])


@NON_LEAF_WARNING
def test_non_leaf_input_changed_in_place_keeps_its_gradient():
    def f(x, w):
        x.mul_(2.0)
        return (x * w).sum()

    w = torch.randn(5, 8, requires_grad=True)
    leaf = torch.randn(5, 8, requires_grad=True)
    gradients = []
    for call in (f, compile_lowtide(f)):
        x = leaf.sin()
        y = call(x, w) + x.sum()
        gradients.append(torch.autograd.grad(y, [leaf, w]))
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-5, atol=1e-5)


def test_outputs_that_are_views_of_inputs():
    def f(x):
        return x[1:], x.t(), x.sin()

    x = torch.randn(5, 8)
    part, turned, _ = compile_lowtide(f)(x)
    assert part.data_ptr() == x[1:].data_ptr()
    assert turned.data_ptr() == x.data_ptr()
    x.fill_(2.0)
    assert_bitwise(part, torch.full((4, 8), 2.0))


def test_outputs_that_are_inputs():
    def f(x, y):
        return x, y * 2, x

    x, y = torch.randn(3, 4), torch.randn(3, 4)
    first, _, again = compile_lowtide(f)(x, y)
    assert first is x
    assert again is x


def test_outputs_that_alias_each_other_carry_gradients():
    class Aliased(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 6)

        def forward(self, x):
            y = self.linear(x)
            return y, y.view(-1), y[:1]

    assert_trains_like_torch_compile(Aliased, [(torch.randn(4, 8),)])
    y, flat, head = compile_lowtide(seeded(Aliased))(torch.randn(4, 8))
    assert y.data_ptr() == flat.data_ptr() == head.data_ptr()


def test_integer_none_and_constant_outputs():
    def f(x, flag=None):
        return x.shape[0] * 2, None, x * 3, flag, "text", 7

    call = compile_lowtide(f)
    for n in (4, 6):
        rows, nothing, tripled, flag, text, seven = call(torch.ones(n, 3))
        assert (rows, nothing, flag, text, seven) == (2 * n, None, None, "text", 7)
        assert_bitwise(tripled, torch.full((n, 3), 3.0))


def test_only_integer_outputs_and_no_kernels():
    def f(x):
        return x.shape[0] + x.shape[1]

    assert compile_lowtide(f)(torch.ones(4, 5)) == 9


def test_integer_and_bool_tensors_in_and_out():
    def f(ids, mask):
        return ids * 2 + mask, mask.logical_not(), ids.argmax(-1)

    ids, mask = torch.randint(0, 9, (4, 5)), torch.rand(4, 5) > 0.5
    assert_bitwise(compile_lowtide(f)(ids, mask), f(ids, mask))


def test_integers_and_floats_as_arguments():
    def f(x, n, a):
        return x.repeat(n, 1) * a

    call = compile_lowtide(f)
    for n, a in ((3, 0.5), (4, 1.5), (5, -2.0)):
        x = torch.randn(2, 3)
        assert_bitwise(call(x, n, a), f(x, n, a))


@NON_LEAF_WARNING
def test_non_contiguous_inputs_and_views_as_inputs():
    base = torch.randn(6, 8, 2)
    variants = [base[:, :, 0], base[1:4, :, 1], torch.randn(8, 6).t(), torch.randn(6, 16)[:, ::2]]
    model = seeded(Mlp)
    call = compile_lowtide(model)
    for x in variants:
        x = x.detach()
        torch.testing.assert_close(call(x), model(x), rtol=1e-5, atol=1e-5)
        call(x).sum().backward()
    leaf = torch.randn(6, 16, requires_grad=True)
    for view in (leaf[:, ::2], leaf.t()[::2].t()):
        actual = torch.autograd.grad(call(view).square().sum(), leaf)
        expected = torch.autograd.grad(model(view).square().sum(), leaf)
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


def test_expanded_input_is_read_and_not_written():
    def f(x):
        return x * 2 + 1

    x = torch.randn(1, 8).expand(5, 8)
    assert_bitwise(compile_lowtide(f)(x), f(x))


def test_the_same_tensor_given_twice():
    def f(a, b):
        a.add_(1.0)
        return a * b

    x, y = torch.randn(4, 4), torch.randn(4, 4)
    call = compile_lowtide(f)
    expected = f(x.clone(), y)
    assert_bitwise(call(x.clone(), y), expected)
    shared = torch.randn(4, 4)
    copy = shared.clone()
    expected = f(copy, copy)
    assert_bitwise(call(shared, shared), expected)
    assert_bitwise(shared, copy)


def test_unused_output_gets_no_gradient():
    class TwoHeads(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.left, self.right = nn.Linear(8, 8), nn.Linear(8, 3), nn.Linear(8, 2)

        def forward(self, x):
            h = self.body(x).relu()
            return self.left(h), self.right(h), h.argmax(-1)

    # Eager leaves None where a compiled graph gives zeros.
    batches = [(torch.randn(5, 8),)]
    assert_trains_like_torch_compile(TwoHeads, batches, loss=lambda out: out[0].square().sum(), eager_tolerance=None)


def test_output_whose_gradient_is_not_needed():
    class Detached(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = Mlp()

        def forward(self, x):
            y = self.body(x)
            return y, y.detach() * 2, torch.ones_like(y)

    assert_trains_like_torch_compile(Detached, [(torch.randn(5, 8),)])
    y, detached, ones = compile_lowtide(seeded(Detached))(torch.randn(5, 8))
    assert (y.requires_grad, detached.requires_grad, ones.requires_grad) == (True, False, False)


def test_containers_and_dataclass_like_outputs():
    class Nested(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = Mlp()

        def forward(self, batch):
            y = self.body(batch["x"])
            return {"logits": y, "parts": [y.sum(), (y.mean(), None)]}

    model = seeded(Nested)
    out = compile_lowtide(model)({"x": torch.randn(3, 8)})
    assert set(out) == {"logits", "parts"}
    out["parts"][0].backward()
    assert model.body.inner.weight.grad is not None


def test_frozen_parameters_get_no_gradient():
    class Adapted(nn.Module):
        """A frozen layer with a trainable low-rank update beside it."""

        def __init__(self):
            super().__init__()
            self.base = nn.Linear(8, 8).requires_grad_(False)
            self.down, self.up = nn.Linear(8, 2, bias=False), nn.Linear(2, 8, bias=False)

        def forward(self, x):
            return self.base(x) + self.up(self.down(x)) * 0.5

    assert_trains_like_torch_compile(Adapted, [(torch.randn(n, 8),) for n in (3, 5)])


def test_tied_weights_get_the_sum_of_both_gradients():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(11, 8)
            self.head = nn.Linear(8, 11, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids):
            return self.head(self.embed(ids).relu())

    assert_trains_like_torch_compile(Tied, [(torch.randint(0, 11, (2, 3)),)])


def test_constants_in_the_model():
    class Constant(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = Mlp()

        def forward(self, x):
            return self.body(x) * torch.tensor([1.0, 2.0, 3.0, 4.0]) + torch.tensor(0.5)

    assert_trains_like_torch_compile(Constant, [(torch.randn(n, 8),) for n in (3, 5)])


def test_mutated_input_that_backward_needs():
    class Overwriting(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8))
            self.register_buffer("state", torch.randn(8))

        def forward(self, x):
            y = x * self.weight * self.state.clone()
            self.state.copy_(self.state * 0.5 + x.detach().mean(0))
            return y

    # AOTAutograd drops the clone, so that the gradient is torch.compile's and not eager's.
    assert_trains_like_torch_compile(Overwriting, [(torch.randn(n, 8),) for n in (3, 5)], eager_tolerance=None)


def test_input_metadata_changed_in_place():
    def f(x):
        x.t_()
        return x * 2

    x = torch.randn(3, 5)
    y = compile_lowtide(f)(x)
    assert x.shape == (5, 3)
    assert_bitwise(y, x * 2)


@pytest.mark.parametrize("size", [1, 2])
def test_batches_of_one(size):
    model = seeded(Mlp)
    call = compile_lowtide(model)
    x = torch.randn(size, 8)
    torch.testing.assert_close(
        run_steps(model, call, [(x,)]),
        run_steps(seeded(Mlp), model, [(x,)]) | {"gradients": {name: p.grad for name, p in model.named_parameters()}},
        rtol=1e-4,
        atol=1e-5,
    )
