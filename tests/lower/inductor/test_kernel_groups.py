"""Loops that have nothing to do with each other are calls of their own, unless their buffers are negligible."""

import torch
from torch import Tensor, nn

import lowtide
from lowtide.ir import Program


def program_of(function, *args: Tensor) -> Program:
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="lowtide", dynamic=True, options={"fallback": False})
    with torch.no_grad():
        torch.testing.assert_close(compiled(*args), function(*args))
    return lowtide.explain(compiled).programs[0].program


def kernels(program: Program) -> int:
    return sum(statement.op.startswith("cpp_") for statement in program.statements)


def test_unrelated_loops_over_large_buffers_are_separate_calls() -> None:
    program = program_of(lambda x, y: (x.sin(), y.cos()), torch.randn(40, 8), torch.randn(30, 9))
    assert kernels(program) == 2


def test_loops_over_negligible_buffers_share_a_call() -> None:
    weight = nn.Linear(64, 64)

    def function(y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return weight.weight.sin(), y[:1, :1].cos(), y[1:2, 1:2].sin()

    assert kernels(program_of(function, torch.randn(30, 9))) < 3
