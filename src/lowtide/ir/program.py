"""The program: statements over values, values in buffers, sizes as expressions in bytes.

Everything here is data: frozen, slotted, checked by `verify_program`, printed by `render_program` and changed
only by building a new program (`edit.py`). One program holds the forward statements first and the
backward statements after them. What is counted, and when, is said once, in `docs/memory_model.md`.

Lookups by name are answered from tables that a program builds at first use and keeps; a program never
changes, so the tables never go stale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

from lowtide.symbolic import Expr, Scope

Level = Literal["aten", "kernels"]
"""`aten`: one statement per aten call. `kernels`: one statement per generated kernel or library call."""


class BufferKind(StrEnum):
    """Who owns a buffer, and so whether it is counted."""

    INPUT = "input"
    """The caller's, not counted."""
    NUMBER = "number"
    """A number that the caller's compiler wraps as a tensor for one call. It exists from the start of forward
    until the end of forward, or until its last use in backward, and is counted."""
    CONSTANT = "constant"
    """Belongs to the program for ever, not counted; its values exist from the start."""
    TANGENT = "tangent"
    """Arrives at the start of backward and is counted from there."""
    INTERMEDIATE = "intermediate"
    """Allocated by a statement, counted."""


class Phase(StrEnum):
    """The half of a training step in which a statement runs."""

    FORWARD = "forward"
    BACKWARD = "backward"


class Flag(StrEnum):
    """What else is true of a statement."""

    RECOMPUTABLE = "recomputable"
    """Running it again on the same operands gives the same bits and disturbs nothing."""
    RANDOM = "random"
    """Draws random numbers from the global generator; such statements keep their order."""
    COLLECTIVE = "collective"
    """Communicates with other processes; such statements keep their order."""
    SIDE_EFFECT = "side_effect"
    """Does something that no value shows; such statements keep their order."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Storage in which values live.

    Attributes:
        name: Unique among buffers.
        size: Bytes, as an expression over the program's dimension variables.
        kind: Who owns it.
        device: Device string, such as `cpu` or `cuda:0`.
    """

    name: str
    size: Expr
    kind: BufferKind
    device: str = "cpu"


@dataclass(frozen=True, slots=True)
class Value:
    """What a statement defines, or an input: a typed, strided window onto a buffer.

    Several values may live in one buffer: views of each other, or a value that took over the storage of
    one that is no longer needed.

    Attributes:
        name: Unique among values.
        buffer: Name of the buffer it lives in.
        dtype: Element type, such as `float32`.
        shape: Elements along each axis.
        stride: Distance between neighbours along each axis, in elements.
        offset: Distance of the first element from the start of the buffer, in elements.
    """

    name: str
    buffer: str
    dtype: str
    shape: tuple[Expr, ...]
    stride: tuple[Expr, ...]
    offset: Expr


@dataclass(frozen=True, slots=True)
class Workspace:
    """Bytes that exist only while one statement runs.

    Attributes:
        name: What the bytes are for.
        size: Bytes, or None when they cannot be known. An unknown workspace is named and reported, never
            silently left out.
    """

    name: str
    size: Expr | None


@dataclass(frozen=True, slots=True)
class Cost:
    """What a statement costs, independent of a machine.

    Attributes:
        flops: Floating-point operations.
        bytes_moved: Bytes read and written.
    """

    flops: Expr
    bytes_moved: Expr


@dataclass(frozen=True, slots=True)
class Statement:
    """One step of a program.

    Attributes:
        name: Unique among statements.
        op: What it calls.
        phase: Forward or backward.
        reads: Values it reads.
        writes: Existing values it changes in place.
        defines: Values that come to be here. Their fresh buffers are allocated when the statement begins.
        defines_dims: Dimension variables whose integers become known here.
        workspace: Bytes it needs only while it runs.
        cost: Its cost, or None when not known.
        flags: See `Flag`.
        may_reuse: Pairs (defined value, read value): the kernel permits the first to take over the storage
            of the second while it runs.
        allocates: True when the runtime allocates the buffers of `defines` before the call. False when the
            call itself returns them, or when they are views of existing buffers.
        code: Python lines of the call.
        origin: The line of the model it comes from.
        reads_dims: Dimension variables the call needs beyond those that its values, workspace and cost mention.
    """

    name: str
    op: str
    phase: Phase
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()
    defines_dims: tuple[str, ...] = ()
    workspace: tuple[Workspace, ...] = ()
    cost: Cost | None = None
    flags: frozenset[Flag] = frozenset()
    may_reuse: tuple[tuple[str, str], ...] = ()
    allocates: bool = True
    code: tuple[str, ...] = ()
    origin: str = ""
    reads_dims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Output:
    """One thing a program returns: a tensor, an integer, or None (both `value` and `dim` are None).

    Attributes:
        value: The value under a tensor output. Its buffer is kept alive.
        dim: The integer returned, as an expression over dimension variables.
        code: Python expression over values that gives what is returned.
    """

    value: str | None
    dim: Expr | None
    code: str


@dataclass(frozen=True, slots=True)
class DimBinding:
    """How a dimension variable gets its integer when the program is entered.

    Attributes:
        dim: The variable.
        source: Name of the input it is read from; empty when `code` computes it.
        axis: The axis of the input's shape, or None when the input is the integer itself.
        code: Python expression over variables bound before this one, for a function of sizes that
            expressions cannot state. Empty when `source` is used.
    """

    dim: str
    source: str
    axis: int | None
    code: str = ""


@dataclass(frozen=True, slots=True)
class _Tables:
    """Lookups of one program, built at first use."""

    definers: dict[str, int]
    users: dict[str, tuple[int, ...]]
    values_in: dict[str, tuple[str, ...]]
    dim_definers: dict[str, int]
    first_backward: int


@dataclass(frozen=True, slots=True)
class Program:
    """A whole training step (or an inference step) as statements.

    Attributes:
        name: Name of the program.
        level: `aten` or `kernels`.
        scope: Dimension variables with their ranges, and relations between them.
        dim_names: What people call a variable, such as `s52` -> `batch`.
        buffers: By name.
        values: By name.
        inputs: Values or dimension variables, in call order.
        tangents: Values that arrive at the start of backward, in call order.
        statements: In program order: every FORWARD one before every BACKWARD one.
        forward_outputs: What forward returns, in order.
        backward_outputs: What backward returns, in order.
        entry_dims: How variables get their integers at entry.
        assumptions: What was taken for granted, one sentence each.
    """

    name: str
    level: Level
    scope: Scope
    dim_names: Mapping[str, str]
    buffers: Mapping[str, Buffer]
    values: Mapping[str, Value]
    inputs: tuple[str, ...]
    tangents: tuple[str, ...]
    statements: tuple[Statement, ...]
    forward_outputs: tuple[Output, ...]
    backward_outputs: tuple[Output, ...] = ()
    entry_dims: tuple[DimBinding, ...] = ()
    assumptions: tuple[str, ...] = ()
    _cache: list[_Tables] = field(default_factory=list[_Tables], init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Shield the mappings, so that a program cannot be changed through a dict its maker kept."""
        object.__setattr__(self, "dim_names", MappingProxyType(dict(self.dim_names)))
        object.__setattr__(self, "buffers", MappingProxyType(dict(self.buffers)))
        object.__setattr__(self, "values", MappingProxyType(dict(self.values)))

    def definer(self, value: str) -> int | None:
        """Return the index of the statement that defines `value`; None for inputs, constants and tangents."""
        return self._tables().definers.get(value)

    def users(self, value: str) -> tuple[int, ...]:
        """Return the indices of the statements that read or write `value`, ascending, each once."""
        return self._tables().users.get(value, ())

    def values_in(self, buffer: str) -> tuple[str, ...]:
        """Return the values that live in `buffer`, in the order in which the program lists them."""
        return self._tables().values_in.get(buffer, ())

    def dim_definer(self, dim: str) -> int | None:
        """Return the index of the statement at which `dim` becomes known; None when known at entry."""
        return self._tables().dim_definers.get(dim)

    @property
    def run_time_dims(self) -> frozenset[str]:
        """The dimension variables that become known only while the program runs."""
        return frozenset(self._tables().dim_definers)

    @property
    def tangents_taken(self) -> frozenset[str]:
        """The TANGENT buffers whose storage a statement lets other values come to be in. Cost: O(values defined)."""
        tangents = {self.values[name].buffer for name in self.tangents}
        filled = (self.values[name].buffer for s in self.statements if s.allocates for name in s.defines)
        return frozenset(tangents.intersection(filled))

    @property
    def first_backward(self) -> int:
        """Index of the first BACKWARD statement; the number of statements when there is none."""
        return self._tables().first_backward

    def _tables(self) -> _Tables:
        if not self._cache:
            self._cache.append(_build_tables(self))
        return self._cache[0]


def _build_tables(program: Program) -> _Tables:
    definers: dict[str, int] = {}
    users: dict[str, list[int]] = {}
    dim_definers: dict[str, int] = {}
    first_backward = len(program.statements)
    for number, statement in enumerate(program.statements):
        for value in statement.defines:
            definers[value] = number
        for value in statement.reads + statement.writes:
            known = users.setdefault(value, [])
            if not known or known[-1] != number:
                known.append(number)
        for name in statement.defines_dims:
            dim_definers[name] = number
        if statement.phase is Phase.BACKWARD and number < first_backward:
            first_backward = number
    values_in: dict[str, list[str]] = {}
    for value in program.values.values():
        values_in.setdefault(value.buffer, []).append(value.name)
    return _Tables(
        definers=definers,
        users={value: tuple(numbers) for value, numbers in users.items()},
        values_in={buffer: tuple(values) for buffer, values in values_in.items()},
        dim_definers=dim_definers,
        first_backward=first_backward,
    )
