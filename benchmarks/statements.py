"""How long programs of many statements take to build, verify, profile, print, read back and check.

The programs look like a training step of a transformer: blocks of kernels that keep some activations for the
backward phase, views, in-place permissions, workspace, a few reduced precision values, gradients that are returned.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from lowtide.analysis import dependences, memory_profile
from lowtide.ir import Program, ProgramBuilder, parse_program, render_program, verify_program
from lowtide.plan import Plan, apply_plan, check_plan

STATEMENTS_OF_A_BLOCK = 20
"""Statements of one block, forward and backward together; see `_forward_block` and `_backward_block`."""

VALUATION = {"batch": 4, "seq": 511, "heads": 8, "vocab": 32000}

Result = TypeVar("Result")


def training_program(statements: int) -> Program:
    """Make an unverified program of about `statements` statements over four dimension variables.

    Args:
        statements: How many statements are wanted; the program has up to one block more.
    """
    builder = (
        ProgramBuilder("training")
        .dim("batch", 1, 1024)
        .dim("seq", 1, 131072)
        .dim("heads", 1, 64)
        .dim("vocab", 2, 262144)
        .input("x", ["batch", "seq", "64*heads"])
        .input("table", ["vocab", "64*heads"])
        .tangent("dlogits", ["batch", "seq", "vocab"])
    )
    blocks = max(1, statements // STATEMENTS_OF_A_BLOCK)
    hidden = "x"
    for number in range(blocks):
        hidden = _forward_block(builder, number, hidden)
    builder.statement(
        "logits", reads=[hidden, "table"], defines={"logits": ["batch", "seq", "vocab"]},
        flops="128*batch*seq*heads*vocab", bytes_moved="4*batch*seq*vocab",
    )  # fmt: skip
    builder.forward_output("logits").backward()
    builder.statement("logits_backward", reads=["dlogits", "table"], defines={"dhidden": ["batch", "seq", "64*heads"]})
    builder.statement("dtable", reads=["dlogits", hidden], defines={"dtable": ["vocab", "64*heads"]})
    gradient = "dhidden"
    for number in reversed(range(blocks)):
        gradient = _backward_block(builder, number, gradient)
    return builder.backward_output(gradient, "dtable").build(verify=False)


def _forward_block(builder: ProgramBuilder, number: int, hidden: str) -> str:
    def own(name: str) -> str:
        return f"{name}_{number}"

    wide = ["batch", "seq", "64*heads"]
    scores = ["batch", "heads", "seq", "seq"]
    builder.input(own("w_qkv"), ["64*heads", "192*heads"]).input(own("w_mlp"), ["64*heads", "256*heads"])
    builder.statement(own("norm"), reads=[hidden], defines={own("normed"): wide}, flops="320*batch*seq*heads")
    builder.statement(
        own("project"), reads=[own("normed"), own("w_qkv")], defines={own("qkv"): ["batch", "seq", "192*heads"]},
        flops="24576*batch*seq*heads^2", workspace={"packing": "256*heads"},
    )  # fmt: skip
    builder.view(
        own("q"), own("qkv"), ["batch", "heads", "seq", 64],
        stride=["192*seq*heads", 64, "192*heads", 1],
    )  # fmt: skip
    builder.statement(own("scores"), reads=[own("q"), own("qkv")], defines={own("s"): scores})
    builder.statement(
        own("softmax"), reads=[own("s")], defines={own("p"): scores}, may_reuse=[(own("p"), own("s"))],
        flops="5*batch*heads*seq^2",
    )  # fmt: skip
    builder.statement(own("attend"), reads=[own("p"), own("qkv")], defines={own("attended"): wide})
    builder.statement(
        own("residual"), reads=[hidden, own("attended")], defines={own("r"): wide},
        may_reuse=[(own("r"), own("attended"))],
    )  # fmt: skip
    builder.statement(
        own("up"), reads=[own("r"), own("w_mlp")], defines={own("u"): ["batch", "seq", "256*heads"]},
        workspace={"im2col": "4*max(seq, 64)*batch"},
    )  # fmt: skip
    builder.statement(
        own("gelu"), reads=[own("u")], defines={own("g"): ["batch", "seq", "256*heads"]}, dtype="bfloat16"
    )
    builder.statement(own("down"), reads=[own("g"), own("w_mlp"), own("r")], defines={own("h"): wide})
    return own("h")


def _backward_block(builder: ProgramBuilder, number: int, gradient: str) -> str:
    def own(name: str) -> str:
        return f"{name}_{number}"

    wide = ["batch", "seq", "64*heads"]
    scores = ["batch", "heads", "seq", "seq"]
    builder.statement(
        own("down_backward"), reads=[gradient, own("w_mlp")], defines={own("dg"): ["batch", "seq", "256*heads"]}
    )
    builder.statement(own("dw_mlp"), reads=[gradient, own("g")], defines={own("dw_mlp"): ["64*heads", "256*heads"]})
    builder.statement(
        own("gelu_backward"), reads=[own("dg"), own("u")], defines={own("du"): ["batch", "seq", "256*heads"]},
        may_reuse=[(own("du"), own("dg"))],
    )  # fmt: skip
    builder.statement(own("up_backward"), reads=[own("du"), own("w_mlp"), own("r")], defines={own("dr"): wide})
    builder.statement(own("add"), reads=[gradient], writes=[own("dr")])
    builder.statement(own("attend_backward"), reads=[own("dr"), own("qkv")], defines={own("dp"): scores})
    builder.statement(
        own("softmax_backward"), reads=[own("dp"), own("p")], defines={own("ds"): scores},
        may_reuse=[(own("ds"), own("dp"))],
    )  # fmt: skip
    builder.statement(
        own("scores_backward"), reads=[own("ds"), own("q")], defines={own("dqkv"): ["batch", "seq", "192*heads"]}
    )
    builder.statement(
        own("dw_qkv"), reads=[own("dqkv"), own("normed")], defines={own("dw_qkv"): ["64*heads", "192*heads"]}
    )
    builder.statement(own("project_backward"), reads=[own("dqkv"), own("dr")], defines={own("dh"): wide})
    builder.backward_output(own("dw_mlp"), own("dw_qkv"))
    return own("dh")


def measure(statements: int) -> dict[str, float]:
    """Time each stage once on a program of about that many statements.

    Returns:
        Seconds by stage, in the order in which they run; `total` adds up build, verify, profile, footprints, peak and
            peak_at: what a user of a program waits for.
    """
    seconds: dict[str, float] = {}

    def timed(stage: str, call: Callable[[], Result]) -> Result:
        start = time.perf_counter()
        result = call()
        seconds[stage] = time.perf_counter() - start
        return result

    program = timed("build", lambda: training_program(statements))
    timed("verify", lambda: verify_program(program))
    profile = timed("profile", lambda: memory_profile(program))
    timed("footprints", lambda: profile.footprints)
    timed("peak", lambda: profile.peak)
    timed("peak_at", lambda: profile.peak_at(VALUATION))
    seconds["total"] = sum(seconds.values())
    timed("dependences", lambda: dependences(program))
    text = timed("render", lambda: render_program(program))
    timed("parse", lambda: parse_program(text))
    plan = Plan(tuple(range(len(program.statements))))
    timed("check_plan", lambda: check_plan(program, plan))
    timed("apply_plan", lambda: apply_plan(program, plan))
    return seconds
