"""Operators that Inductor makes no code for are called, and what they return is counted once."""

import pytest
import torch
from torch import Tensor

import lowtide

complex_is_slow = pytest.mark.filterwarnings("ignore:Torchinductor does not support code generation for complex")


def compiled_like_inductor(function, *args: object):
    """Compile with lowtide, hold its results against torch.compile's own, and return the compiled function."""
    torch._dynamo.reset()
    ours = torch.compile(function, backend="lowtide", dynamic=True, options={"fallback": False})
    theirs = torch.compile(function, backend="inductor", dynamic=True)
    with torch.no_grad():
        assert torch.equal(ours(*args), theirs(*args))
    return ours


def peaks(compiled, *args: object, **sizes: int) -> tuple[int, int]:
    """Predicted and measured peak of one call."""

    def call() -> object:
        with torch.no_grad():
            return compiled(*args)

    return lowtide.explain(compiled).peak_at(**sizes).bytes, lowtide.measure_peak(call).peak_bytes


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.linalg.inv(x),
        lambda x: torch.linalg.solve(x, x * 2),
        lambda x: torch.linalg.cholesky(x @ x.mT + torch.eye(4)),
    ],
    ids=["inv", "solve", "cholesky"],
)
def test_operators_that_check_for_errors_are_programs(function) -> None:
    compiled = compiled_like_inductor(function, torch.eye(4) + 0.1 * torch.randn(4, 4))
    assert compiled(torch.eye(4)).shape == (4, 4)


@complex_is_slow
def test_views_of_complex_tensors_take_no_memory() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.fft.rfft(x, dim=1)[:, :4].abs()

    compiled = compiled_like_inductor(function, torch.randn(9, 16))
    predicted, measured = peaks(compiled, torch.randn(9, 16), batch=9, x_dim1=16)
    assert predicted == measured
    predicted, measured = peaks(compiled, torch.randn(21, 30), batch=21, x_dim1=30)
    assert predicted == measured


def test_a_slice_by_an_argument_is_a_program() -> None:
    def function(x: Tensor, rows: int) -> Tensor:
        return torch.cat([x[:rows] * 2, x[rows:]])

    compiled = compiled_like_inductor(function, torch.randn(12, 4), 3)
    with torch.no_grad():
        x = torch.randn(20, 4)
        assert torch.equal(compiled(x, 7), function(x, 7))
