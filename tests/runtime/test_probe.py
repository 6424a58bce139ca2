"""A statement's workspace is what it takes beyond its results when it is run alone."""

import torch

from lowtide.analysis import memory_profile
from lowtide.ir import Flag, ProgramBuilder, Statement
from lowtide.runtime.probe import measure_unknown_workspace, probe_workspace


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


def test_what_cannot_be_measured_has_a_reason() -> None:
    program = make_program()
    for name, op, flags in (
        ("measured", "aten.one", ()),
        ("random", "aten.two", (Flag.RANDOM,)),
        ("foreign", "mine.three", ()),
        ("failing", "aten.four", ()),
    ):
        program.statement(name, op=op, reads=["x"], defines={f"y_{name}": ["n", 4]}, flags=flags, workspace={"w": None})
        program.forward_output(f"y_{name}")

    def probe(statement: Statement, _: object) -> int:
        if statement.name == "failing":
            raise RuntimeError("no such kernel\nand a long trace")
        return 8

    reasons: dict[tuple[str, str], str] = {}
    found = measure_unknown_workspace(memory_profile(program.build()), probe, {"n": 5}, range(4), reasons)
    assert found == {("measured", "w"): 8}
    assert reasons == {
        ("random", "w"): "its call is marked random",
        ("foreign", "w"): "its operator is not torch's own",
        ("failing", "w"): "RuntimeError: no such kernel",
    }
