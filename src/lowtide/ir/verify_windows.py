"""Verifies that every value stays inside its buffer, for every valuation of the scope."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from lowtide.ir.defects import Defect, VerificationError
from lowtide.ir.layout import extent
from lowtide.ir.program import Program, Value
from lowtide.symbolic import AtMost, Expr, Scope, bounds, compare, evaluate, render

_SAMPLES = 16


@dataclass(frozen=True, slots=True)
class Undecided:
    """A window that is neither proved to fit nor refuted.

    Attributes:
        value: The value.
        extent: Its end, in bytes from the start of the buffer.
        size: The buffer's size in bytes.
    """

    value: str
    extent: Expr
    size: Expr


def verify_windows(program: Program) -> tuple[Undecided, ...]:
    """Check ranks, element types, sizes that cannot be negative, and ends within buffers.

    A value without elements occupies nothing, so its lengths are assumed to be at least 1 for the comparison.

    Returns:
        The windows that could not be decided.

    Raises:
        VerificationError: If a window leaves its buffer at a valuation of the scope, which the message names.
    """
    undecided: list[Undecided] = []
    # Programs repeat few layouts thousands of times: each distinct one is decided once.
    extents: dict[tuple[object, ...], Expr] = {}
    fits: dict[tuple[Expr, Expr], _Answer] = {}
    for value in program.values.values():
        if len(value.shape) != len(value.stride):
            raise VerificationError(
                Defect.RANK_MISMATCH,
                program,
                subject=f"value '{value.name}'",
                found=f"value '{value.name}' has {len(value.shape)} axes and {len(value.stride)} strides",
                fix="give one stride, in elements, for each axis",
            )
        layout = (value.dtype, value.shape, value.stride, value.offset)
        end = extents.get(layout)
        if end is None:
            end = extents[layout] = extent(value)
        size = program.buffers[value.buffer].size
        answer = fits.get((end, size))
        if answer is None:
            answer = fits[end, size] = _fits(end, size, value, program.scope)
        if answer.witness is not None:
            raise _outside(program, value, end, size, answer.witness)
        if not answer.proved:
            undecided.append(Undecided(value.name, end, size))
    return tuple(undecided)


@dataclass(frozen=True, slots=True)
class _Answer:
    proved: bool
    witness: Mapping[str, int] | None = None


def _fits(end: Expr, size: Expr, value: Value, scope: Scope) -> _Answer:
    if end == size:
        return _Answer(proved=True)
    comparison = compare(end, size, scope)
    if comparison.is_at_most:
        return _Answer(proved=True)
    ranges = {length: bounds(length, scope) for length in value.shape}
    if any(high is not None and high < 1 for _, high in ranges.values()):
        return _Answer(proved=True)  # never has an element
    may_be_empty = [AtMost(1, length) for length, (low, _) in ranges.items() if low is None or low < 1]
    if may_be_empty:
        scope = scope.with_constraint(*may_be_empty)
        comparison = compare(end, size, scope)
        if comparison.is_at_most:
            return _Answer(proved=True)
    witnesses = [comparison.greater] if comparison.greater is not None else []
    rng = random.Random(0)
    witnesses += [scope.sample(rng) for _ in range(0 if witnesses else _SAMPLES)]
    for witness in witnesses:
        occupied = all(evaluate(length, witness) >= 1 for length in value.shape)
        if occupied and evaluate(end, witness) > evaluate(size, witness):
            return _Answer(proved=False, witness=witness)
    return _Answer(proved=False)


def _outside(program: Program, value: Value, end: Expr, size: Expr, witness: Mapping[str, int]) -> VerificationError:
    sizes = ", ".join(f"{dim}={number}" for dim, number in sorted(witness.items()))
    return VerificationError(
        Defect.OUTSIDE_BUFFER,
        program,
        subject=f"value '{value.name}'",
        found=(
            f"value '{value.name}' ends {render(end)} bytes into buffer '{value.buffer}' of {render(size)} bytes "
            f"({evaluate(end, witness)} > {evaluate(size, witness)} at {sizes or 'every size'})"
        ),
        statement=program.definer(value.name),
        fix="correct shape, stride or offset (in elements), or the buffer's size (in bytes)",
    )
