"""A fluent builder of programs, for tests, documents and experiments.

It fills in what is usual: dense layouts, one buffer per value, sizes from shapes, bindings of dimension
variables from input shapes. Whatever it makes is verified before it is handed out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from lowtide.ir.dtypes import item_bytes
from lowtide.ir.layout import contiguous_strides, numel
from lowtide.ir.program import (
    Buffer,
    BufferKind,
    Cost,
    DimBinding,
    Flag,
    Level,
    Output,
    Phase,
    Program,
    Statement,
    Value,
    Workspace,
)
from lowtide.ir.verify import verify_program
from lowtide.symbolic import Constraint, Expr, Scope, as_expr, parse

Size = int | str | Expr
"""A size for people: an integer, an expression as text (`"4*batch"`), or an expression."""


class ProgramBuilder:
    """Builds a program step by step; every method but `build` returns the builder.

    Args:
        name: Name of the program.
        level: `aten` or `kernels`.

    Example:
        >>> program = (
        ...     ProgramBuilder("tiny")
        ...     .dim("batch", 1, 64)
        ...     .input("x", ["batch", 4])
        ...     .statement("relu", reads=["x"], defines={"y": ["batch", 4]})
        ...     .forward_output("y")
        ...     .build()
        ... )
        >>> str(program.buffers["y"].size)
        '16*batch'
    """

    def __init__(self, name: str, level: Level = "kernels") -> None:
        self._name = name
        self._level: Level = level
        self._ranges: dict[str, tuple[int, int | None]] = {}
        self._run_time_dims: set[str] = set()
        self._constraints: list[Constraint] = []
        self._dim_names: dict[str, str] = {}
        self._buffers: dict[str, Buffer] = {}
        self._values: dict[str, Value] = {}
        self._inputs: list[str] = []
        self._tangents: list[str] = []
        self._statements: list[Statement] = []
        self._outputs: dict[Phase, list[Output]] = {Phase.FORWARD: [], Phase.BACKWARD: []}
        self._bindings: dict[str, DimBinding] = {}
        self._assumptions: list[str] = []
        self._phase = Phase.FORWARD
        # Programs repeat few sizes and shapes thousands of times.
        self._exprs: dict[str, Expr] = {}
        self._layouts: dict[tuple[Size, ...], tuple[tuple[Expr, ...], tuple[Expr, ...], Expr]] = {}

    def dim(self, name: str, low: int = 1, high: int | None = None, *, called: str = "") -> Self:
        """Declare a dimension variable with inclusive bounds (`high=None`: no upper bound).

        It is bound at entry to the first input axis whose length it is, or else becomes an input itself,
        unless a statement defines it.
        """
        self._ranges[name] = (low, high)
        if called:
            self._dim_names[name] = called
        return self

    def relate(self, *constraints: Constraint) -> Self:
        """Add relations between dimension variables."""
        self._constraints += constraints
        return self

    def bind(self, dim: str, code: str) -> Self:
        """Let `dim` be computed at entry by a Python expression over variables bound before it."""
        self._bindings[dim] = DimBinding(dim, "", None, code)
        return self

    def assume(self, sentence: str) -> Self:
        """Record something taken for granted."""
        self._assumptions.append(sentence)
        return self

    def input(self, name: str, shape: Sequence[Size], dtype: str = "float32") -> Self:
        """Add an input in the caller's storage."""
        self._inputs.append(name)
        return self._add_owner(name, shape, dtype, BufferKind.INPUT)

    def constant(self, name: str, shape: Sequence[Size], dtype: str = "float32") -> Self:
        """Add a constant of the program."""
        return self._add_owner(name, shape, dtype, BufferKind.CONSTANT)

    def tangent(self, name: str, shape: Sequence[Size], dtype: str = "float32") -> Self:
        """Add a tangent, which arrives at the start of backward."""
        self._tangents.append(name)
        return self._add_owner(name, shape, dtype, BufferKind.TANGENT)

    def buffer(self, name: str, size: Size, device: str = "cpu") -> Self:
        """Add an intermediate buffer of `size` bytes, for values placed in it by `place`."""
        self._buffers[name] = Buffer(name, self._expr(size), BufferKind.INTERMEDIATE, device)
        return self

    def place(
        self,
        name: str,
        buffer: str,
        shape: Sequence[Size],
        dtype: str = "float32",
        *,
        stride: Sequence[Size] | None = None,
        offset: Size = 0,
    ) -> Self:
        """Declare a value in an existing buffer, to be named among the `places` of a statement."""
        lengths, dense, _ = self._layout(shape)
        strides = dense if stride is None else tuple(self._expr(step) for step in stride)
        self._values[name] = Value(name, buffer, dtype, lengths, strides, self._expr(offset))
        return self

    def backward(self) -> Self:
        """Let the statements that follow run in the backward phase."""
        self._phase = Phase.BACKWARD
        return self

    def statement(
        self,
        name: str,
        *,
        reads: Iterable[str] = (),
        writes: Iterable[str] = (),
        defines: Mapping[str, Sequence[Size]] | None = None,
        places: Iterable[str] = (),
        dtype: str = "float32",
        op: str = "",
        defines_dims: Iterable[str] = (),
        reads_dims: Iterable[str] = (),
        workspace: Mapping[str, Size | None] | None = None,
        flops: Size | None = None,
        bytes_moved: Size = 0,
        flags: Iterable[Flag] = (),
        may_reuse: Iterable[tuple[str, str]] = (),
        allocates: bool = True,
        code: Iterable[str] = (),
        origin: str = "",
    ) -> Self:
        """Add a statement.

        Args:
            name: Unique name.
            reads: Values it reads.
            writes: Values it changes in place.
            defines: New value -> shape; each gets a dense buffer of its own, under its own name.
            places: Values declared by `place` that come to be here.
            dtype: Element type of `defines`.
            op: What it calls; the name by default.
            defines_dims: Dimension variables that become known here.
            reads_dims: Dimension variables the call itself needs.
            workspace: Name -> bytes, or None when unknown.
            flops: Floating-point operations; None leaves the statement without a cost.
            bytes_moved: Bytes moved, used when `flops` is given.
            flags: See `Flag`.
            may_reuse: Pairs (defined value, read value).
            allocates: See `Statement`.
            code: Python lines of the call.
            origin: Line of the model.
        """
        fresh = defines or {}
        for value, shape in fresh.items():
            self._add_owner(value, shape, dtype, BufferKind.INTERMEDIATE)
        needs = workspace or {}
        self._statements.append(
            Statement(
                name=name,
                op=op or name,
                phase=self._phase,
                reads=tuple(reads),
                writes=tuple(writes),
                defines=(*fresh, *places),
                defines_dims=tuple(defines_dims),
                workspace=tuple(
                    Workspace(what, None if size is None else self._expr(size)) for what, size in needs.items()
                ),
                cost=None if flops is None else Cost(self._expr(flops), self._expr(bytes_moved)),
                flags=frozenset(flags),
                may_reuse=tuple(may_reuse),
                allocates=allocates,
                code=tuple(code),
                origin=origin,
                reads_dims=tuple(reads_dims),
            )
        )
        self._run_time_dims.update(defines_dims)
        return self

    def view(
        self,
        name: str,
        of: str,
        shape: Sequence[Size],
        *,
        stride: Sequence[Size] | None = None,
        offset: Size = 0,
        statement: str = "",
    ) -> Self:
        """Add a statement that defines `name` as a window onto the buffer of the value `of`."""
        base = self._values[of]
        self.place(name, base.buffer, shape, base.dtype, stride=stride, offset=offset)
        return self.statement(statement or f"view_{name}", reads=[of], places=[name], op="view", allocates=False)

    def forward_output(self, *values: str) -> Self:
        """Return values, as they are, from forward."""
        self._outputs[Phase.FORWARD] += [Output(value, None, value) for value in values]
        return self

    def backward_output(self, *values: str) -> Self:
        """Return values, as they are, from backward."""
        self._outputs[Phase.BACKWARD] += [Output(value, None, value) for value in values]
        return self

    def output(self, output: Output, phase: Phase = Phase.FORWARD) -> Self:
        """Return anything else: an integer, None, or an expression over a value."""
        self._outputs[phase].append(output)
        return self

    def build(self, *, verify: bool = True) -> Program:
        """Make the program.

        Args:
            verify: Whether to run `verify_program` on it.

        Raises:
            VerificationError: If `verify` is set and the program is not sound.
        """
        inputs = list(self._inputs)
        bindings: list[DimBinding] = []
        for dim in self._ranges:
            if dim in self._run_time_dims or dim in self._bindings:
                continue
            binding = self._find_binding(dim)
            if binding is None:
                inputs.append(dim)
                binding = DimBinding(dim, dim, None)
            bindings.append(binding)
        program = Program(
            name=self._name,
            level=self._level,
            scope=Scope(self._ranges, tuple(self._constraints)),
            dim_names=self._dim_names,
            buffers=self._buffers,
            values=self._values,
            inputs=tuple(inputs),
            tangents=tuple(self._tangents),
            statements=tuple(self._statements),
            forward_outputs=tuple(self._outputs[Phase.FORWARD]),
            backward_outputs=tuple(self._outputs[Phase.BACKWARD]),
            entry_dims=(*bindings, *self._bindings.values()),
            assumptions=tuple(self._assumptions),
        )
        if verify:
            verify_program(program)
        return program

    def _add_owner(self, name: str, shape: Sequence[Size], dtype: str, kind: BufferKind) -> Self:
        self._buffers[name] = Buffer(name, self._layout(shape)[2] * item_bytes(dtype), kind)
        return self.place(name, name, shape, dtype)

    def _expr(self, size: Size) -> Expr:
        if not isinstance(size, str):
            return as_expr(size)
        known = self._exprs.get(size)
        if known is None:
            known = self._exprs[size] = parse(size)
        return known

    def _layout(self, shape: Sequence[Size]) -> tuple[tuple[Expr, ...], tuple[Expr, ...], Expr]:
        """Return lengths, dense strides and element count of a shape."""
        key = tuple(shape)
        known = self._layouts.get(key)
        if known is None:
            lengths = tuple(self._expr(length) for length in shape)
            known = self._layouts[key] = lengths, contiguous_strides(lengths), numel(lengths)
        return known

    def _find_binding(self, dim: str) -> DimBinding | None:
        for name in self._inputs:
            for axis, length in enumerate(self._values[name].shape):
                if not length.is_constant and length == parse(dim):
                    return DimBinding(dim, name, axis)
        return None
