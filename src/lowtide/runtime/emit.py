"""Writes a Program as Python: every statement, allocation and release in the program's order.

`forward(args) -> (outputs, tensors, dims)` and `backward(tensors, dims, tangents) -> gradients` run the
program. `tensors` is the saved state in a fixed order, owned by the caller of these functions; `dims` are
the integers that backward needs. A program without backward gives `forward` alone, with empty state.

A value's name is deleted right after its last use, so its storage goes when the last value in it does:
exactly the live ranges of `lowtide.analysis`. A value that lives in the storage of an earlier one (a plan's
reuse) is made as a view of it instead of being allocated.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lowtide.ir import BufferKind, DimBinding, Output, Program, Statement, Value, extent, item_bytes, needed_dims, numel
from lowtide.runtime.device_context import cuda_device, in_device_context
from lowtide.symbolic import Expr, render_python

ALIAS = "_alias"
"""Name under which the emitted code finds the function that makes a second handle on a tensor."""


@dataclass(frozen=True, slots=True)
class Emitted:
    """Python text of a program.

    Attributes:
        source: The text; needs the program's kernels, `reinterpret_tensor`, the allocators and `ALIAS` as globals.
        state: Names of saved tensors, in the order in which they travel.
        state_dims: Names of saved integers, likewise.
        watched: Indices into `state` of tensors that others may change: inputs, and what outputs share.
        shared_outputs: Indices of forward outputs whose storage stays in the state.
        written_tangents: Indices of tangents that `backward` writes over; nobody else may hold them.
    """

    source: str
    state: tuple[str, ...]
    state_dims: tuple[str, ...]
    watched: tuple[int, ...]
    shared_outputs: tuple[int, ...]
    written_tangents: tuple[int, ...]


def emit_program(program: Program) -> Emitted:
    """Write a verified program as Python functions.

    Args:
        program: The program, with the plan applied: statements in order, reuse as shared buffers.

    Cost: linear in statements and operands.
    """
    return _Emitter(program).emit()


def emit_sizes(program: Program) -> str:
    """Write the two functions that know the program's dimension variables.

    `sizes(args) -> {variable: integer}` tells what a call's arguments make of them; `derive(known) ->
    {variable: integer}` computes those that are functions of known ones.
    """
    sizes = ["def sizes(args):"]
    if program.inputs:
        sizes.append(f"    {', '.join(program.inputs)}, = args")
    derive = ["def derive(known):"]
    for binding in program.entry_dims:
        line = _binding_line(binding)
        if line:
            sizes.append(f"    {line}")
        if binding.code and not any(f"{name}." in binding.code for name in program.inputs):
            derive.append(f"    {binding.dim} = known[{binding.dim!r}] if {binding.dim!r} in known else {binding.code}")
        else:
            derive.append(f"    {binding.dim} = known.get({binding.dim!r})")
    result = f"    return {{{', '.join(f'{b.dim!r}: {b.dim}' for b in program.entry_dims)}}}"
    return "\n".join([*sizes, result, *derive, result]) + "\n"


def _binding_line(binding: DimBinding) -> str:
    if binding.code:
        return f"{binding.dim} = {binding.code}"
    if binding.axis is not None:
        return f"{binding.dim} = {binding.source}.size({binding.axis})"
    return "" if binding.dim == binding.source else f"{binding.dim} = {binding.source}"


class _Emitter:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.last_use = self._last_uses()
        self.bound: set[str] = set()
        self.lines: list[str] = []
        self.body = 0

    def emit(self) -> Emitted:
        program = self.program
        split = program.first_backward
        self._head("def forward(args):")
        self._unpack("args", program.inputs)
        self.lines.append("    args.clear()")
        for binding in program.entry_dims:
            if line := _binding_line(binding):
                self.lines.append(f"    {line}")
        for name in program.inputs:
            if name in program.values and self.last_use.get(name, -1) < 0 and name not in self._output_values():
                self.lines.append(f"    del {name}")
                self.bound.discard(name)
        for index in range(split):
            self._statement(index, keep=self._forward_output_values())
        backward_needs = self._needed_by_backward(split)
        state = tuple(sorted(v for v in self.bound if v in backward_needs))
        state_dims = self._state_dims(split)
        state_buffers = {program.values[v].buffer for v in state}
        shared = tuple(i for i, out in enumerate(program.forward_outputs) if self._shares(out, state_buffers, state))
        outputs = [
            f"{ALIAS}({out.code})" if i in shared and out.code == out.value else out.code
            for i, out in enumerate(program.forward_outputs)
        ]
        self.lines.append(f"    return ({_tuple(outputs)}), [{', '.join(state)}], ({_tuple(state_dims)})")
        self._enter_device()
        watched = self._watched(state, shared)
        if program.backward_outputs or split < len(program.statements):
            self._head("def backward(tensors, dims, tangents):")
            self._unpack("tensors", state)
            self._unpack("dims", state_dims)
            self._unpack("tangents", program.tangents)
            self.lines.append("    tensors.clear(); tangents.clear()")
            self.bound = {*state, *program.tangents}
            unread = [t for t in program.tangents if t not in self.last_use and t not in self._backward_output_values()]
            if unread:
                self.lines.append(f"    del {', '.join(unread)}")
            for index in range(split, len(program.statements)):
                self._statement(index, keep=self._backward_output_values())
            self.lines.append(f"    return [{', '.join(out.code for out in program.backward_outputs)}]")
            self._enter_device()
        taken = program.tangents_taken
        written = tuple(i for i, name in enumerate(program.tangents) if program.values[name].buffer in taken)
        return Emitted("\n".join(self.lines) + "\n", state, state_dims, watched, shared, written)

    # -- pieces ----------------------------------------------------------------------------------------------

    def _head(self, line: str) -> None:
        self.lines.append(line)
        self.body = len(self.lines)

    def _enter_device(self) -> None:
        """Let the function written last run on the program's GPU, if it has one."""
        if (device := cuda_device(self.program)) is not None:
            self.lines[self.body :] = in_device_context(self.lines[self.body :], device)

    def _unpack(self, source: str, names: Sequence[str]) -> None:
        if names:
            self.lines.append(f"    {', '.join(names)}, = {source}")
        self.bound.update(n for n in names if n in self.program.values)

    def _statement(self, index: int, keep: frozenset[str]) -> None:
        statement = self.program.statements[index]
        for name in statement.defines:
            self._define(statement, self.program.values[name])
        self.lines.extend(f"    {line}" for line in statement.code)
        self.bound.update(statement.defines)
        done = [
            name
            for name in dict.fromkeys((*statement.reads, *statement.writes, *statement.defines))
            if name in self.bound and self.last_use.get(name, index) <= index and name not in keep
        ]
        if done:
            self.lines.append(f"    del {', '.join(done)}")
            self.bound.difference_update(done)

    def _define(self, statement: Statement, value: Value) -> None:
        if not statement.allocates:
            return
        shape, stride = _int_tuple(value.shape), _int_tuple(value.stride)
        # Any value still there in this storage will do, a view included.
        holder = next((name for name in self.program.values_in(value.buffer) if name in self.bound), None)
        if holder is None:
            self.lines.append(f"    {value.name} = {self._allocation(value, shape, stride)}")
            return
        distance = render_python(value.offset - self.program.values[holder].offset)
        self.lines.append(f"    {value.name} = reinterpret_tensor({holder}, {shape}, {stride}, {distance})")

    def _allocation(self, value: Value, shape: str, stride: str) -> str:
        buffer = self.program.buffers[value.buffer]
        allocator = f"empty_strided_{buffer.device.split(':')[0]}"
        item = item_bytes(value.dtype)
        if buffer.size in (numel(value.shape) * item, extent(value) * item):
            return f"{allocator}({shape}, {stride}, torch.{value.dtype})"
        # Padded storage: allocate all of it, then look at the part that the value covers.
        count = render_python(buffer.size // item)
        return f"reinterpret_tensor({allocator}(({count},), (1,), torch.{value.dtype}), {shape}, {stride}, 0)"

    # -- facts -----------------------------------------------------------------------------------------------

    def _last_uses(self) -> dict[str, int]:
        last: dict[str, int] = {}
        for index, statement in enumerate(self.program.statements):
            for name in (*statement.reads, *statement.writes, *statement.defines):
                last[name] = index
        return last

    def _forward_output_values(self) -> frozenset[str]:
        return frozenset(o.value for o in self.program.forward_outputs if o.value is not None) | (
            self._backward_output_values()
        )

    def _backward_output_values(self) -> frozenset[str]:
        return frozenset(o.value for o in self.program.backward_outputs if o.value is not None)

    def _output_values(self) -> frozenset[str]:
        return self._forward_output_values() | self._backward_output_values()

    def _needed_by_backward(self, split: int) -> frozenset[str]:
        later = {name for name, index in self.last_use.items() if index >= split}
        return frozenset(later) | self._backward_output_values()

    def _state_dims(self, split: int) -> tuple[str, ...]:
        program = self.program
        known = {b.dim for b in program.entry_dims} | {d for s in program.statements[:split] for d in s.defines_dims}
        needed: set[str] = set()
        for statement in program.statements[split:]:
            needed |= needed_dims(program, statement)
        for out in program.backward_outputs:
            if out.dim is not None:
                needed.update(out.dim.dims)
            needed.update(d for d in known if d in out.code)
        return tuple(sorted(needed & known))

    def _shares(self, out: Output, buffers: set[str], state: Iterable[str]) -> bool:
        if out.value is None:
            return False
        value = self.program.values[out.value]
        if self.program.buffers[value.buffer].kind is BufferKind.INPUT:
            return False
        return value.buffer in buffers or out.value in state

    def _watched(self, state: Sequence[str], shared: Sequence[int]) -> tuple[int, ...]:
        outputs = {self.program.forward_outputs[i].value for i in shared}
        return tuple(
            i
            for i, name in enumerate(state)
            if name in outputs or self.program.buffers[self.program.values[name].buffer].kind is BufferKind.INPUT
        )


def _int_tuple(exprs: Sequence[Expr]) -> str:
    return f"({_tuple([render_python(e) for e in exprs])})"


def _tuple(items: Sequence[str]) -> str:
    return ", ".join(items) + ("," if len(items) == 1 else "")
