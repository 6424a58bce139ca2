"""Loops stay apart where one kernel would keep large buffers alive together that have nothing to do with each other."""

import torch
from torch import Tensor

import lowtide
from lowtide.explanation import ProgramExplanation
from lowtide.ir import Program


def explained(function, *args: Tensor) -> ProgramExplanation:
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="lowtide", dynamic=True, options={"fallback": False})
    with torch.no_grad():
        torch.testing.assert_close(compiled(*args), function(*args))
    return lowtide.explain(compiled).programs[0]


def products_read(program: Program) -> list[int]:
    """For each generated kernel, how many results of matrix products it reads."""
    products = {name for s in program.statements if s.op.endswith(".mm") for name in s.defines}
    return [len(products & set(s.reads)) for s in program.statements if s.op.startswith("cpp_")]


def test_sums_of_two_large_buffers_are_two_kernels() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return (x @ x.mT).sum(1) + (y @ y.mT).sum(1)

    found = explained(function, torch.randn(40, 8), torch.randn(40, 9))
    assert max(products_read(found.program)) == 1
    assert found.kept_apart > 0
    assert "pairs of loops kept apart" in str(found)


def test_loops_over_two_large_buffers_that_meet_in_a_third_are_one_kernel() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return (x @ x.mT).sin() * (y @ y.mT).cos()

    found = explained(function, torch.randn(40, 8), torch.randn(40, 9))
    assert products_read(found.program) == [2]
    assert found.kept_apart == 0


def test_loops_that_read_the_same_large_buffer_are_one_kernel() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        product = x @ x.mT
        return product.sin(), product.cos()

    assert products_read(explained(function, torch.randn(40, 8)).program) == [1]


def test_small_loops_that_share_a_small_buffer_are_one_kernel() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        scale = y[:8] * 2
        return x @ x.mT, scale.sin(), scale.cos()

    found = explained(function, torch.randn(40, 8), torch.randn(9))
    assert len(products_read(found.program)) == 1
