"""One half of a step, forward or backward, while its records are turned into statements of the program.

Identifiers of backward that collide with forward's get a prefix. Each allocation moves into the statement that
first writes the buffer, so that order and frees are ours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sympy

from lowtide.ir import Buffer, BufferKind, Cost, Flag, Phase, Statement, Value, Workspace
from lowtide.lower.cost import estimate_cost
from lowtide.lower.joint.records import GraphRecord, LibraryCall, StatementRecord, TensorRecord
from lowtide.lower.joint.rename import identifiers, rename_identifiers
from lowtide.lower.joint.sizes import SizeTable
from lowtide.lower.workspace import Argument, Call, CpuMachine, find_workspace
from lowtide.symbolic import AtMost, as_expr, const, dim

BACKWARD_PREFIX = "b_"
"""Goes before backward's names that forward may have too."""

_PICKING = frozenset({"nonzero", "_unique", "_unique2", "unique_consecutive"})
"""Operators that return at most as many elements (rows, for nonzero) as their first operand has."""


@dataclass(frozen=True, slots=True)
class KernelSource:
    """Where a name used by the program's code is found: in which module, under which name."""

    backward: bool
    name: str


@dataclass(slots=True)
class Draft:
    """The program as far as it is assembled, shared by its two halves.

    Attributes:
        sizes: Its dimension variables.
        forward_module: Namespace of forward's kernels.
        machine: The processor that workspace formulas are for.
    """

    sizes: SizeTable
    forward_module: Mapping[str, Any]
    machine: CpuMachine = field(default_factory=CpuMachine.here)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    kernels: dict[str, KernelSource] = field(default_factory=dict)
    assumptions: list[str] = field(default_factory=list)

    def add_tensor(self, tensor: TensorRecord, kind: BufferKind | None, *, base: str | None = None) -> None:
        """Add a value, in a buffer of its own or in that of `base`."""
        buffer = self.values[base].buffer if base is not None else tensor.name
        if base is None:
            assert kind is not None, "bug: a buffer needs a kind"
            self.buffers[buffer] = Buffer(buffer, self.sizes.expr(tensor.size_bytes), kind, tensor.device)
        self.values[tensor.name] = Value(
            name=tensor.name,
            buffer=buffer,
            dtype=tensor.dtype.removeprefix("torch."),
            shape=tuple(self.sizes.expr(s) for s in tensor.shape),
            stride=tuple(self.sizes.expr(s) for s in tensor.stride),
            offset=self.sizes.expr(tensor.offset),
        )

    def add_view(self, name: str, base: str, code: str, phase: Phase) -> None:
        """Add a statement that makes a view, whose value is there already."""
        self.statements.append(
            Statement(
                name=f"s{len(self.statements)}",
                op="view",
                phase=phase,
                reads=(base,),
                defines=(name,),
                allocates=False,
                flags=frozenset({Flag.RECOMPUTABLE}),
                code=(f"{name} = {code}",),
            )
        )


@dataclass(slots=True)
class Part:
    """Forward or backward while it is being turned into statements."""

    whole: Draft
    graph: GraphRecord
    phase: Phase
    mapping: dict[str, str]
    pending: dict[str, TensorRecord] = field(default_factory=dict)
    tensors: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Add every statement of this part."""
        self.pending = dict(self.graph.allocations)
        self.tensors = set(self.graph.allocations) | set(self.graph.constants)
        for statement in self.graph.statements:
            self.tensors.update(d.name for d in statement.defines)
            self.tensors.update(statement.temporaries)
        for name, tensor in self.graph.constants.items():
            joint_name = self.name(name)
            self.whole.add_tensor(replace(tensor, name=joint_name), BufferKind.CONSTANT)
            self.whole.kernels[joint_name] = KernelSource(self.phase is Phase.BACKWARD, name)
        for statement in self.graph.statements:
            self._statement(statement)
        for name in dict.fromkeys(name for out in self.graph.outputs for name in out.reads):
            if name in self.pending:  # nothing writes a tensor without elements
                self._allocate(name)

    def name(self, local: str) -> str:
        """The joint program's name for a name of this part."""
        if self.phase is Phase.FORWARD or local in self.mapping:
            return self.mapping.get(local, local)
        return BACKWARD_PREFIX + local if local in self.tensors else local

    def code(self, text: str) -> str:
        """The text with this part's identifiers renamed; kernels it names are noted."""
        renamed = {}
        for local in set(identifiers(text)):
            if local in self.mapping or local in self.tensors:
                renamed[local] = self.name(local)
            elif local in self.graph.module:
                renamed[local] = self._kernel(local)
        return rename_identifiers(text, renamed)

    def _kernel(self, local: str) -> str:
        forward = self.whole.forward_module
        if self.phase is Phase.FORWARD or forward.get(local) is self.graph.module[local]:
            self.whole.kernels.setdefault(local, KernelSource(False, local))
            return local
        name = BACKWARD_PREFIX + local
        self.whole.kernels.setdefault(name, KernelSource(True, local))
        return name

    def _statement(self, record: StatementRecord) -> None:
        born = [w for w in record.writes if w in self.pending]
        if record.defines:
            # A call that returns tensors of its own cannot also have its operands allocated for it here.
            for name in born:
                self._allocate(name)
            born = []
        for name in (*record.reads, *record.writes):
            if name in self.pending and name not in born:
                self._allocate(name)
        for name in born:
            self._add_pending(name)
        for tensor in record.defines:
            base = record.views.get(tensor.name)
            self.whole.add_tensor(
                replace(tensor, name=self.name(tensor.name)),
                BufferKind.INTERMEDIATE if base is None else None,
                base=None if base is None else self.name(base),
            )
        self.whole.sizes.run_time.update(record.symbols)
        workspace, cost = self._workspace(record), self._cost(record)
        self._relate(record)
        flags: set[Flag] = set()
        if record.random:
            flags.add(Flag.RANDOM)
        if record.side_effect:
            flags.add(Flag.SIDE_EFFECT)
        changed = tuple(w for w in record.writes if w not in born)
        if not flags and not changed and not record.symbols:
            flags.add(Flag.RECOMPUTABLE)
        code = tuple(self.code(line) for line in record.code)
        self.whole.statements.append(
            Statement(
                name=f"s{len(self.whole.statements)}",
                op=record.op,
                phase=self.phase,
                reads=tuple(dict.fromkeys(self.name(r) for r in record.reads)),
                writes=tuple(dict.fromkeys(self.name(w) for w in changed)),
                defines=tuple(self.name(n) for n in (*born, *(d.name for d in record.defines))),
                defines_dims=record.symbols,
                workspace=workspace,
                cost=cost,
                flags=frozenset(flags),
                may_reuse=tuple((self.name(w), self.name(r)) for w, r in record.may_reuse if w in born),
                allocates=bool(born),
                code=code,
                origin=record.origin,
                reads_dims=self._dims_in(code, record.symbols),
            )
        )

    def _dims_in(self, code: Sequence[str], own: Sequence[str]) -> tuple[str, ...]:
        known = (self.whole.sizes.bound | self.whole.sizes.run_time) - set(own)
        return tuple(sorted({n for line in code for n in identifiers(line) if n in known}))

    def _allocate(self, name: str) -> None:
        self._add_pending(name)
        self.whole.statements.append(
            Statement(
                name=f"s{len(self.whole.statements)}",
                op="allocate",
                phase=self.phase,
                defines=(self.name(name),),
                flags=frozenset({Flag.RECOMPUTABLE}),
            )
        )

    def _add_pending(self, name: str) -> None:
        tensor = self.pending.pop(name)
        self.whole.add_tensor(replace(tensor, name=self.name(name)), BufferKind.INTERMEDIATE)

    def _workspace(self, record: StatementRecord) -> tuple[Workspace, ...]:
        known = tuple(Workspace(name, self.whole.sizes.expr(size)) for name, size in record.workspace)
        if record.call is None:
            return known
        found = find_workspace(self._call(record.call), self.whole.machine)
        for entry in found:
            if entry.size is None:
                self.whole.assumptions.append(
                    f"workspace of {record.call.operator} has no formula: measured by running it alone on zeros, if "
                    "possible; it may depend on values"
                )
            else:
                self.whole.sizes.used.update(entry.size.dims)
        return known + found

    def _cost(self, record: StatementRecord) -> Cost:
        if record.call is None and record.defines and all(d.name in record.views for d in record.defines):
            return Cost(const(0), const(0))
        touched = (*record.reads, *record.writes, *(d.name for d in record.defines))
        sizes = [self.whole.buffers[self.whole.values[self.name(n)].buffer].size for n in dict.fromkeys(touched)]
        call = None if record.call is None else self._call(record.call)
        return estimate_cost(call, sizes)

    def _call(self, call: LibraryCall) -> Call:
        devices = [operand.tensor.device for _, operand in call.operands if operand.tensor is not None]
        device = next((d for d in devices if d != "cpu"), "cpu")
        return Call(call.operator, {name: self._argument(operand) for name, operand in call.operands}, device)

    def _argument(self, operand: object) -> Argument:
        tensor = getattr(operand, "tensor", None)
        value = getattr(operand, "value", operand)
        if tensor is not None:
            return Argument(
                shape=tuple(self.whole.sizes.expr(s) for s in tensor.shape),
                stride=tuple(self.whole.sizes.expr(s) for s in tensor.stride),
                dtype=tensor.dtype.removeprefix("torch."),
            )
        if isinstance(value, list):
            return Argument(value=tuple(self._argument(v) for v in value))
        if isinstance(value, sympy.Expr):
            return Argument(value=self.whole.sizes.expr(value))
        return Argument(value=value)

    def _relate(self, record: StatementRecord) -> None:
        """How many elements an operator picks is at most how many it looks at; torch keeps no such relation."""
        if record.call is None or not record.symbols:
            return
        looked_at = _looked_at(record.call)
        if looked_at is None:
            return
        elements = as_expr(1)
        for extent in looked_at.shape:
            elements = elements * self.whole.sizes.expr(extent)
        self.whole.sizes.constraints.extend(AtMost(dim(symbol), elements) for symbol in record.symbols)


def _looked_at(call: LibraryCall) -> TensorRecord | None:
    """The tensor whose elements an operator picks from, each at most once; None where there is no such tensor."""
    name = operator_name(call.operator)
    if name in _PICKING:
        return call.operands[0][1].tensor
    if name == "index":
        indices = call.operands[1][1].value
        masks = [getattr(index, "tensor", None) for index in indices] if isinstance(indices, list) else []
        return next((mask for mask in masks if mask is not None and mask.dtype.endswith("bool")), None)
    return None


def operator_name(operator: str) -> str:
    """Name of an operator without namespace and overload: `nonzero` for `aten.nonzero.default`."""
    return operator.removeprefix("torch.ops.").partition(".")[2].partition(".")[0]
