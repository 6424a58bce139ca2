"""A statement's workspace is what it takes beyond its results when it is run alone."""

import torch

from lowtide.ir import ProgramBuilder
from lowtide.runtime.probe import probe_workspace


def make_program() -> ProgramBuilder:
    return ProgramBuilder("probe").dim("n").input("x", ["n", 4])


def take_scratch(source: torch.Tensor, target: torch.Tensor) -> None:
    scratch = torch.empty(3 * source.numel())
    target.copy_(source + scratch[0] * 0)


def test_counts_temporaries_of_a_kernel_that_fills_its_output() -> None:
    program = (
        make_program()
        .statement("f", reads=["x"], defines={"y": ["n", 4]}, code=["take_scratch(x, y)"])
        .forward_output("y")
        .build()
    )
    # 3 * 4n floats of scratch, and 4n of the sum, at once.
    taken = probe_workspace(program, program.statements[0], {"take_scratch": take_scratch}, {"n": 5})
    assert taken == (12 * 5 + 4 * 5) * 4 + 4  # and the product of one element


def test_leaves_out_results_that_the_call_returns() -> None:
    program = (
        make_program()
        .statement("f", reads=["x"], defines={"y": ["n", 4]}, allocates=False, code=["y = torch.relu(x)"])
        .forward_output("y")
        .build()
    )
    assert probe_workspace(program, program.statements[0], {}, {"n": 7}) == 0
