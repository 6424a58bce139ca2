"""Sizes known only at run time: bounded variables of the program, or a reported fallback."""

import pytest
import torch
from torch import nn

import lowtide
from lowtide.capture import find_backend
from lowtide.runtime.registry import compiled_programs
from lowtide.runtime.step import MissingSizeError
from tests.torch_backend.pairs import assert_bitwise, compile_lowtide, compile_torch, seeded


@pytest.fixture(autouse=True)
def captured_sizes():
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        yield


def _positive_rows(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    rows = x[:, 0].gt(0).nonzero().squeeze(1)
    return (x.index_select(0, rows) @ w).relu().sum(0)


def test_a_selection_of_rows_in_inference():
    call = compile_lowtide(_positive_rows)
    w = torch.randn(8, 4)
    with torch.no_grad():
        for n in (5, 9, 1):
            x = torch.randn(n, 8)
            torch.testing.assert_close(call(x, w), _positive_rows(x, w), rtol=1e-5, atol=1e-5)
        empty = -torch.rand(3, 8)
        assert_bitwise(call(empty, w), torch.zeros(4))
    varying, *_ = compiled_programs.programs_of(find_backend(call))
    assert varying.program.scope.constraints, "u <= n"


def test_a_selection_of_rows_in_training():
    class Selecting(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8, 4))

        def forward(self, x):
            rows = x[:, 0].gt(0).nonzero().squeeze(1)
            return (x.index_select(0, rows) @ self.weight).relu().sum(0)

    results = []
    for compiler in (compile_torch, compile_lowtide):
        torch._dynamo.reset()
        model = seeded(Selecting)
        call = compiler(model)
        for n in (5, 9):
            torch.manual_seed(n)
            call(torch.randn(n, 8)).sum().backward()
        results.append(model.weight.grad)
    assert_bitwise(results[1], results[0])


def test_an_integer_read_from_a_tensor_is_a_size():
    def f(x, n):
        k = n.item()
        torch._check(k >= 0)
        torch._check(k <= x.shape[0])
        return torch.zeros(k, 4) + x.sum()

    call = compile_lowtide(f)
    for n in (3, 0, 2):
        x = torch.randn(4, 4)
        torch.testing.assert_close(call(x, torch.tensor(n)), f(x, torch.tensor(n)), rtol=1e-5, atol=1e-5)


def test_a_step_names_the_sizes_that_came_to_be_known_in_it() -> None:
    torch._dynamo.reset()
    weight = nn.Parameter(torch.randn(5))
    call = torch.compile(lambda x: (x * weight)[x.sum(1) > 0].exp().sum(), backend="lowtide", dynamic=True)
    x = torch.randn(10, 5)
    call(x).backward()
    with lowtide.record_step() as step:
        call(x).backward()
    with pytest.raises(MissingSizeError, match="no size for u0") as found:
        step.predict()
    assert "the program's are batch, u0" in str(found.value)
    with pytest.raises(MissingSizeError, match="the program's are batch, u0"):
        step.predict({"batch": 10})
    assert step.predict({"batch": 12, "u0": 4}).bytes > 0
