"""Turns the records of one forward (and its backward) into one Program.

Stages:
1. every identifier of the backward that collides with one of the forward gets a prefix; an activation that
   forward returns under a plain name is one value of the joint program, others become views;
2. symbols become dimension variables, sizes become expressions in bytes;
3. each wrapper allocation moves into the statement that first writes it, so that order and frees are ours.

Kernels stay in the two loaded modules; the program refers to them by name, and `kernels` tells where each
name is found.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import sympy
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from lowtide.errors import LowtideError
from lowtide.ir import (
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
from lowtide.lower.cost import estimate_cost
from lowtide.lower.dimension_names import name_dimensions
from lowtide.lower.joint.errors import UnboundedSizeError
from lowtide.lower.joint.printing import size_code
from lowtide.lower.joint.records import GraphRecord, LibraryCall, OutputRecord, StatementRecord, TensorRecord
from lowtide.lower.joint.rename import identifiers, rename_identifiers
from lowtide.lower.workspace import Argument, Call, find_workspace
from lowtide.symbolic import AtMost, Expr, Scope, as_expr, const, dim
from lowtide.symbolic.from_sympy import from_sympy

_BACKWARD = "b_"
_NO_LEAST = -(2**62)
"""Least value of a variable of which no least value is known; sizes of tensors are never such variables."""
THREADS = "threads"
"""The machine parameter of workspace formulas: worker threads that torch uses inside one operator."""

_PICKING = frozenset({"nonzero", "_unique", "_unique2", "unique_consecutive"})
"""Operators that return at most as many elements (rows, for nonzero) as their first operand has."""


@dataclass(frozen=True, slots=True)
class KernelSource:
    """Where a name used by the program's code is found: in which module, under which name."""

    backward: bool
    name: str


@dataclass(frozen=True, slots=True)
class Assembled:
    """A program and where its kernels are."""

    program: Program
    kernels: Mapping[str, KernelSource]


@dataclass(frozen=True, slots=True)
class Joint:
    """A forward, and the backward that goes with it.

    Attributes:
        forward: The forward or inference graph.
        backward: The backward graph; None for inference.
        num_forward_outputs: How many of forward's outputs are the model's; the others are saved activations.
        saved_names: Placeholder names of backward for those others, in order.
    """

    forward: GraphRecord
    backward: GraphRecord | None = None
    num_forward_outputs: int | None = None
    saved_names: tuple[str, ...] = ()


def assemble_program(name: str, joint: Joint, *, level: Level = "kernels") -> Assembled:
    """Build the Program of a step.

    Args:
        name: Name of the program.
        joint: The lowered graphs.
        level: What its statements are.

    Raises:
        UnboundedSizeError: If a buffer's size depends on a value without bounds.

    Cost: linear in statements and operands.
    """
    return _Assembler(name, joint, level).assemble()


@dataclass(slots=True)
class _Assembler:
    name: str
    joint: Joint
    level: Level
    buffers: dict[str, Buffer] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    kernels: dict[str, KernelSource] = field(default_factory=dict)
    constraints: list[AtMost] = field(default_factory=list)
    bindings: list[DimBinding] = field(default_factory=list)
    bound: set[str] = field(default_factory=set)
    run_time: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    unknown: dict[sympy.Expr, str] = field(default_factory=dict)
    unknown_ranges: dict[str, tuple[int | None, int | None]] = field(default_factory=dict)
    converted: dict[sympy.Expr, Expr] = field(default_factory=dict)
    replacements: dict[sympy.Symbol, sympy.Expr] = field(default_factory=dict)
    precomputed: dict[str, str] = field(default_factory=dict)
    assumptions: list[str] = field(default_factory=list)

    def assemble(self) -> Assembled:
        forward, backward = self.joint.forward, self.joint.backward
        count = self.joint.num_forward_outputs if backward is not None else len(forward.outputs)
        for graph in (forward, backward):
            if graph is not None:
                self.replacements |= {s: e for s, e in graph.replacements.items() if s not in e.free_symbols}
        inputs = self._forward_inputs(forward)
        forward_part = _Part(self, forward, Phase.FORWARD, {})
        self._precomputed(forward, {})
        forward_part.run()
        outputs = [self._output(out, forward_part) for out in forward.outputs[:count]]
        tangents: tuple[str, ...] = ()
        gradients: list[Output] = []
        if backward is not None:
            mapping, tangents = self._link(forward_part, backward)
            backward_part = _Part(self, backward, Phase.BACKWARD, mapping)
            self._precomputed(backward, mapping)
            self._receive_unused(tangents, backward_part)
            backward_part.run()
            gradients = [self._output(out, backward_part) for out in backward.outputs]
        if THREADS in self.used:
            self._bind(DimBinding(THREADS, "", None, code="torch.get_num_threads()"))
        scope = self._scope()
        sources = {**forward.sources, **(backward.sources if backward else {})}
        program = Program(
            name=self.name,
            level=self.level,
            scope=scope,
            dim_names=name_dimensions({s: sources[s] for s in scope.ranges if s in sources}),
            buffers=self.buffers,
            values=self.values,
            inputs=inputs,
            tangents=tangents,
            statements=tuple(self.statements),
            forward_outputs=tuple(outputs),
            backward_outputs=tuple(gradients),
            entry_dims=tuple(b for b in self.bindings if b.dim in scope.ranges),
            assumptions=tuple(dict.fromkeys(self.assumptions)),
        )
        return Assembled(program, self.kernels)

    # -- sizes -----------------------------------------------------------------------------------------------

    def expr(self, value: sympy.Expr | int) -> Expr:
        """Convert a size; unknown functions become bounded variables computed at entry."""
        key = sympy.sympify(value)
        found = self.converted.get(key)
        if found is None:
            found = from_sympy(self._replaced(key), self._unknown)
            self.converted[key] = found
            self.used.update(found.dims)
        return found

    def _replaced(self, value: sympy.Expr) -> sympy.Expr:
        """The size with every symbol that lowering found equal to others written in those others.

        torch learns such equations while it lowers, so that sizes written down early may still have the symbol.
        """
        while not self.replacements.keys().isdisjoint(value.free_symbols):
            value = value.xreplace(self.replacements)
        return value

    def _unknown(self, value: sympy.Expr) -> str:
        if value in self.unknown:
            return self.unknown[value]
        symbols = {str(s) for s in value.free_symbols}
        if symbols & self.run_time or not symbols <= self.bound:
            raise UnboundedSizeError(
                "A size is a function that cannot be computed when the program is entered.",
                found=f"{value}, of {', '.join(sorted(symbols))}",
                where=f"program {self.name}",
                fix="compute this size outside the compiled region, or give it bounds with torch._check.",
            )
        name = f"x{len(self.unknown)}"
        self.unknown[value] = name
        ranges = {s: self._sympy_range(str(s)) for s in value.free_symbols}
        bound = bound_sympy(value, ranges)
        self.unknown_ranges[name] = (_integer(bound.lower), _integer(bound.upper))
        self.bindings.append(DimBinding(name, "", None, code=f"int({size_code(value)})"))
        self.bound.add(name)
        return name

    def _sympy_range(self, symbol: str) -> object:
        low, high = self._range(symbol)
        return ValueRanges(-int_oo if low is None else low, int_oo if high is None else high)

    def _range(self, symbol: str) -> tuple[int | None, int | None]:
        if symbol in self.unknown_ranges:
            return self.unknown_ranges[symbol]
        if symbol == THREADS:
            return (1, 1024)
        for graph in (self.joint.forward, self.joint.backward):
            if graph is not None and symbol in graph.ranges:
                return graph.ranges[symbol]
        return (0, None)

    def _scope(self) -> Scope:
        names = self.used | {b.dim for b in self.bindings} | self.run_time
        for constraint in self.constraints:
            names |= constraint.left.dims | constraint.right.dims
        ranges = {name: self._range(name) for name in sorted(names)}
        return Scope(
            {name: (_NO_LEAST if low is None else low, high) for name, (low, high) in ranges.items()}, self.constraints
        )

    # -- inputs and outputs ----------------------------------------------------------------------------------

    def _forward_inputs(self, graph: GraphRecord) -> tuple[str, ...]:
        names: list[str] = []
        for record in graph.inputs:
            if record.symbol is not None:
                name = str(record.symbol) if isinstance(record.symbol, sympy.Symbol) else record.name
                if name in self.bound:
                    name = record.name
                self._bind(DimBinding(name, name, None))
                names.append(name)
            elif record.tensor is not None:
                names.append(record.name)
            else:
                raise LowtideError(
                    "An input is neither a tensor nor an integer.",
                    found=record.name,
                    where=f"program {self.name}",
                    fix="pass tensors and integers only, or use backend='inductor'.",
                )
        for record in graph.inputs:
            if record.tensor is not None:
                self._bind_tensor(record.tensor)
        for record in graph.inputs:
            if record.tensor is not None:
                self.add_tensor(record.tensor, BufferKind.NUMBER if record.made_for_call else BufferKind.INPUT)
        return tuple(names)

    def _bind_tensor(self, tensor: TensorRecord) -> None:
        for axis, extent in enumerate(tensor.shape):
            if isinstance(extent, sympy.Symbol):
                self._bind(DimBinding(str(extent), tensor.name, axis))
        for axis, step in enumerate(tensor.stride):
            if isinstance(step, sympy.Symbol):
                self._bind(DimBinding(str(step), "", None, code=f"{tensor.name}.stride({axis})"))
        if isinstance(tensor.offset, sympy.Symbol):
            self._bind(DimBinding(str(tensor.offset), "", None, code=f"{tensor.name}.storage_offset()"))

    def _bind(self, binding: DimBinding) -> None:
        if binding.dim not in self.bound:
            self.bound.add(binding.dim)
            self.bindings.append(binding)

    def _precomputed(self, graph: GraphRecord, mapping: dict[str, str]) -> None:
        """Names that the wrapper gives to expressions: bound at entry, one name per expression."""
        for name, value in graph.precomputed.items():
            code = size_code(value)
            if code not in self.precomputed:
                joint_name = f"ps{len(self.precomputed)}"
                self.precomputed[code] = joint_name
                self._bind(DimBinding(joint_name, "", None, code=code))
                self.unknown_ranges[joint_name] = (None, None)
            mapping[name] = self.precomputed[code]

    def _link(self, forward: "_Part", backward: GraphRecord) -> tuple[dict[str, str], tuple[str, ...]]:
        """Join saved activations with backward's inputs. Returns the renaming of backward and its tangents."""
        saved = dict(zip(self.joint.saved_names, forward.graph.outputs[self.joint.num_forward_outputs :], strict=True))
        mapping: dict[str, str] = {}
        tangents: list[str] = []
        for record in backward.inputs:
            output = saved.get(record.name)
            if record.symbol is not None:
                continue
            if record.tensor is None:
                raise LowtideError(
                    "A value saved for backward is neither a tensor nor an integer.",
                    found=record.name,
                    where=f"program {self.name}",
                    fix="use backend='inductor' for this model.",
                )
            if output is None:
                mapping[record.name] = record.name
                tangents.append(record.name)
                self.add_tensor(record.tensor, BufferKind.TANGENT)
            elif forward.name(output.code) in self.values:
                mapping[record.name] = forward.name(output.code)
            else:
                name = _BACKWARD + record.name
                mapping[record.name] = name
                base = forward.name(output.reads[0])
                self.add_tensor(replace(record.tensor, name=name), None, base=base)
                self.statements.append(self._view(name, base, forward.code(output.code), Phase.BACKWARD))
        return mapping, tuple(tangents)

    def _view(self, name: str, base: str, code: str, phase: Phase) -> Statement:
        return Statement(
            name=f"s{len(self.statements)}",
            op="view",
            phase=phase,
            reads=(base,),
            defines=(name,),
            allocates=False,
            flags=frozenset({Flag.RECOMPUTABLE}),
            code=(f"{name} = {code}",),
        )

    def _receive_unused(self, tangents: Sequence[str], part: "_Part") -> None:
        """A tangent that nothing reads exists all the same when backward begins, and is dropped there."""
        read = {part.name(r) for statement in part.graph.statements for r in (*statement.reads, *statement.writes)}
        read |= {part.name(r) for out in part.graph.outputs for r in out.reads}
        unused = tuple(t for t in tangents if t not in read)
        if unused:
            self.statements.append(
                Statement(
                    name=f"s{len(self.statements)}", op="receive", phase=Phase.BACKWARD, reads=unused, allocates=False
                )
            )

    def _output(self, record: OutputRecord, part: "_Part") -> Output:
        if record.integer is not None:
            return Output(None, self.expr(record.integer), part.code(record.code))
        if not record.is_tensor:
            return Output(None, None, "None")
        base, code = part.name(record.reads[0]), part.code(record.code)
        if record.tensor is None:
            return Output(base, None, code)
        # A view made for the caller alone: a value of its own, so that its shape is known.
        name = record.tensor.name if part.phase is Phase.FORWARD else _BACKWARD + record.tensor.name
        self.add_tensor(replace(record.tensor, name=name), None, base=base)
        self.statements.append(self._view(name, base, code, part.phase))
        return Output(name, None, name)

    # -- tensors ---------------------------------------------------------------------------------------------

    def add_tensor(self, tensor: TensorRecord, kind: BufferKind | None, *, base: str | None = None) -> None:
        """Add a value, in a buffer of its own or in that of `base`."""
        buffer = self.values[base].buffer if base is not None else tensor.name
        if base is None:
            assert kind is not None, "bug: a buffer needs a kind"
            self.buffers[buffer] = Buffer(buffer, self.expr(tensor.size_bytes), kind, tensor.device)
        self.values[tensor.name] = Value(
            name=tensor.name,
            buffer=buffer,
            dtype=tensor.dtype.removeprefix("torch."),
            shape=tuple(self.expr(s) for s in tensor.shape),
            stride=tuple(self.expr(s) for s in tensor.stride),
            offset=self.expr(tensor.offset),
        )


@dataclass(slots=True)
class _Part:
    """Forward or backward while it is being turned into statements."""

    whole: _Assembler
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
        return _BACKWARD + local if local in self.tensors else local

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
        forward = self.whole.joint.forward.module
        if self.phase is Phase.FORWARD or forward.get(local) is self.graph.module[local]:
            self.whole.kernels.setdefault(local, KernelSource(False, local))
            return local
        name = _BACKWARD + local
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
        self.whole.run_time.update(record.symbols)
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
        known = (self.whole.bound | self.whole.run_time) - set(own)
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
        known = tuple(Workspace(name, self.whole.expr(size)) for name, size in record.workspace)
        if record.call is None:
            return known
        found = find_workspace(self._call(record.call))
        for entry in found:
            if entry.size is None:
                self.whole.assumptions.append(
                    f"workspace of {record.call.operator} has no formula: measured by running the call alone, not in the formula"
                )
            else:
                self.whole.used.update(entry.size.dims)
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
                shape=tuple(self.whole.expr(s) for s in tensor.shape),
                stride=tuple(self.whole.expr(s) for s in tensor.stride),
                dtype=tensor.dtype.removeprefix("torch."),
            )
        if isinstance(value, list):
            return Argument(value=tuple(self._argument(v) for v in value))
        if isinstance(value, sympy.Expr):
            return Argument(value=self.whole.expr(value))
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
            elements = elements * self.whole.expr(extent)
        self.whole.constraints.extend(AtMost(dim(symbol), elements) for symbol in record.symbols)


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


def _integer(value: object) -> int | None:
    return int(value) if isinstance(value, sympy.Integer) else None
