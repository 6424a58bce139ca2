"""Measures the workspace of one statement by running it alone, where no formula is known.

A library kernel may take bytes by rules that nobody wrote down (oneDNN's convolution gradients choose blocks by
image size, channels and threads). Most depend on shapes, types and the machine only, so running that one
call once on zeros of the right shapes tells them. Some depend on values (the terms of a matrix exponential, the
rows that an index repeats): of these the number is no bound. It is a measurement of the call, a term of a
prediction for the program, and is reported as such.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch

from lowtide.analysis import MemoryProfile
from lowtide.ir import Flag, Program, Statement, Value
from lowtide.runtime.load import load_functions
from lowtide.runtime.meter import measure_peak
from lowtide.symbolic import evaluate

Probe: TypeAlias = Callable[[Statement, Mapping[str, int]], int]
"""Measures the workspace of a statement at given sizes, in bytes."""


def measure_unknown_workspace(
    profile: MemoryProfile,
    probe: Probe,
    valuation: Mapping[str, int],
    statements: range,
    reasons: dict[tuple[str, str], str] | None = None,
) -> dict[tuple[str, str], int]:
    """Measure what a profile cannot count: the workspaces without a formula.

    Args:
        profile: Profile in program order.
        probe: Measures one statement.
        valuation: An integer for every dimension variable.
        statements: Indices of the statements that run.
        reasons: Is given why each workspace that is left out could not be measured.

    Returns:
        (statement, workspace) -> bytes, as `MemoryProfile.at` takes them. Left out is what cannot be run just to be
        measured: calls with effects, of random numbers, of operators that are not torch's own, and calls that fail on
        made-up operands.
    """
    unknown = set(profile.unknown_workspace)
    measured: dict[tuple[str, str], int] = {}
    for statement in profile.program.statements[statements.start : statements.stop] if unknown else ():
        names = [w.name for w in statement.workspace if (statement.name, w.name) in unknown]
        if not names:
            continue
        # A statement has one workspace without formula: that of its one library call.
        key = (statement.name, names[0])
        reason = _why_not_alone(statement)
        if not reason:
            known = sum(evaluate(w.size, valuation) for w in statement.workspace if w.size is not None)
            try:
                measured[key] = max(0, probe(statement, valuation) - known)
            except (RuntimeError, ValueError, IndexError) as error:
                first_line = str(error).partition("\n")[0]
                reason = f"{type(error).__name__}: {first_line}"
        if reason and reasons is not None:
            reasons[key] = reason
    return measured


def _why_not_alone(statement: Statement) -> str:
    """Why a statement is not run just to be measured; empty when it may be."""
    effects = {Flag.SIDE_EFFECT, Flag.COLLECTIVE, Flag.RANDOM} & statement.flags
    if effects:
        return f"its call is marked {', '.join(sorted(effect.value for effect in effects))}"
    own = statement.op.removeprefix("torch.ops.").startswith(("aten.", "extern_kernels."))
    return "" if own else "its operator is not torch's own"


def probe_workspace(
    program: Program, statement: Statement, kernels: Mapping[str, Any], valuation: Mapping[str, int]
) -> int:
    """Measure the bytes that a statement takes beyond the buffers it defines.

    Args:
        program: The program.
        statement: One of its statements, with code.
        kernels: Globals of the program's code.
        valuation: An integer for every dimension variable that the statement needs.

    Returns:
        Bytes, on this machine with its present number of threads.

    Cost: one run of the statement under a profiler.
    """
    operands = dict.fromkeys((*statement.reads, *statement.writes))
    defined = [program.values[name] for name in statement.defines]
    allocated = [v.name for v in defined] if statement.allocates else []
    names = [*operands, *allocated]
    lines = [f"def run({', '.join(names)}):"]
    lines += [f"    {variable} = {value}" for variable, value in valuation.items()]
    lines += [f"    {line}" for line in statement.code]
    returned = ", ".join(v.name for v in defined if v.name not in allocated)
    lines.append(f"    return ({returned}{',' if returned else ''})")
    run = load_functions("\n".join(lines) + "\n", kernels, f"{program.name} probe {statement.name}")["run"]
    tensors = [_make(program, program.values[name], valuation) for name in names]
    own = 0 if statement.allocates else _fresh_bytes(program, defined, statement, valuation)
    with torch.random.fork_rng(devices=[]):
        return max(0, measure_peak(lambda: run(*tensors)).peak_bytes - own)


def _make(program: Program, value: Value, valuation: Mapping[str, int]) -> torch.Tensor:
    buffer = program.buffers[value.buffer]
    dtype = getattr(torch, value.dtype)
    storage = torch.zeros(max(1, evaluate(buffer.size, valuation)), dtype=torch.uint8, device=buffer.device)
    shape = [evaluate(e, valuation) for e in value.shape]
    stride = [evaluate(e, valuation) for e in value.stride]
    return torch.empty(0, dtype=dtype, device=buffer.device).set_(
        storage.untyped_storage(), evaluate(value.offset, valuation), shape, stride
    )


def _fresh_bytes(program: Program, defined: list[Value], statement: Statement, valuation: Mapping[str, int]) -> int:
    existing = {program.values[name].buffer for name in (*statement.reads, *statement.writes)}
    fresh = {v.buffer for v in defined} - existing
    return sum(evaluate(program.buffers[name].size, valuation) for name in fresh)
