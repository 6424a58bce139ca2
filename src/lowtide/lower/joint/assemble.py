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
from dataclasses import dataclass, replace

import sympy

from lowtide.errors import LowtideError
from lowtide.ir import BufferKind, DimBinding, Level, Output, Phase, Program, Statement
from lowtide.lower.dimension_names import name_dimensions
from lowtide.lower.joint.part import BACKWARD_PREFIX, Draft, KernelSource, Part
from lowtide.lower.joint.records import GraphRecord, OutputRecord
from lowtide.lower.joint.sizes import THREADS, SizeTable


@dataclass(frozen=True, slots=True)
class Assembled:
    """A program and where its kernels are.

    Attributes:
        program: The program.
        kernels: Where each name that its code calls is found.
        kept_apart: How many pairs of loops could have been one kernel and were not, to spare memory.
    """

    program: Program
    kernels: Mapping[str, KernelSource]
    kept_apart: int = 0


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
    graphs = (joint.forward,) if joint.backward is None else (joint.forward, joint.backward)
    sizes = SizeTable(f"program {name}", graphs)
    return _Assembler(name, joint, sizes, Draft(sizes, joint.forward.module)).assemble(level)


@dataclass(frozen=True, slots=True)
class _Assembler:
    name: str
    joint: Joint
    sizes: SizeTable
    draft: Draft

    def assemble(self, level: Level) -> Assembled:
        forward, backward = self.joint.forward, self.joint.backward
        count = self.joint.num_forward_outputs if backward is not None else len(forward.outputs)
        inputs = self._forward_inputs(forward)
        forward_part = Part(self.draft, forward, Phase.FORWARD, self.sizes.bind_precomputed(forward))
        forward_part.run()
        outputs = [self._output(out, forward_part) for out in forward.outputs[:count]]
        tangents: tuple[str, ...] = ()
        gradients: list[Output] = []
        if backward is not None:
            mapping, tangents = self._link(forward_part, backward)
            mapping |= self.sizes.bind_precomputed(backward)
            backward_part = Part(self.draft, backward, Phase.BACKWARD, mapping)
            self._receive_unused(tangents, backward_part)
            backward_part.run()
            gradients = [self._output(out, backward_part) for out in backward.outputs]
        if THREADS in self.sizes.used:
            self.sizes.bind(DimBinding(THREADS, "", None, code="torch.get_num_threads()"))
        scope = self.sizes.scope()
        sources = {**forward.sources, **(backward.sources if backward else {})}
        program = Program(
            name=self.name,
            level=level,
            scope=scope,
            dim_names=name_dimensions({s: sources[s] for s in scope.ranges if s in sources}),
            buffers=self.draft.buffers,
            values=self.draft.values,
            inputs=inputs,
            tangents=tangents,
            statements=tuple(self.draft.statements),
            forward_outputs=tuple(outputs),
            backward_outputs=tuple(gradients),
            entry_dims=tuple(b for b in self.sizes.bindings if b.dim in scope.ranges),
            assumptions=tuple(dict.fromkeys(self.draft.assumptions)),
        )
        kept_apart = len(forward.kept_apart) + (len(backward.kept_apart) if backward else 0)
        return Assembled(program, self.draft.kernels, kept_apart)

    def _forward_inputs(self, graph: GraphRecord) -> tuple[str, ...]:
        names: list[str] = []
        for record in graph.inputs:
            if record.symbol is not None:
                name = str(record.symbol) if isinstance(record.symbol, sympy.Symbol) else record.name
                if name in self.sizes.bound:
                    name = record.name
                self.sizes.bind(DimBinding(name, name, None))
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
                self.sizes.bind_tensor(record.tensor)
        for record in graph.inputs:
            if record.tensor is not None:
                self.draft.add_tensor(record.tensor, BufferKind.NUMBER if record.made_for_call else BufferKind.INPUT)
        return tuple(names)

    def _link(self, forward: Part, backward: GraphRecord) -> tuple[dict[str, str], tuple[str, ...]]:
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
                self.draft.add_tensor(record.tensor, BufferKind.TANGENT)
            elif forward.name(output.code) in self.draft.values:
                mapping[record.name] = forward.name(output.code)
            else:
                name = BACKWARD_PREFIX + record.name
                mapping[record.name] = name
                base = forward.name(output.reads[0])
                self.draft.add_tensor(replace(record.tensor, name=name), None, base=base)
                self.draft.add_view(name, base, forward.code(output.code), Phase.BACKWARD)
        return mapping, tuple(tangents)

    def _receive_unused(self, tangents: Sequence[str], part: Part) -> None:
        """A tangent that nothing reads exists all the same when backward begins, and is dropped there."""
        read = {part.name(r) for statement in part.graph.statements for r in (*statement.reads, *statement.writes)}
        read |= {part.name(r) for out in part.graph.outputs for r in out.reads}
        unused = tuple(t for t in tangents if t not in read)
        if unused:
            self.draft.statements.append(
                Statement(
                    name=f"s{len(self.draft.statements)}",
                    op="receive",
                    phase=Phase.BACKWARD,
                    reads=unused,
                    allocates=False,
                )
            )

    def _output(self, record: OutputRecord, part: Part) -> Output:
        if record.integer is not None:
            return Output(None, self.sizes.expr(record.integer), part.code(record.code))
        if not record.is_tensor:
            return Output(None, None, "None")
        base, code = part.name(record.reads[0]), part.code(record.code)
        if record.tensor is None:
            return Output(base, None, code)
        # A view made for the caller alone: a value of its own, so that its shape is known.
        name = record.tensor.name if part.phase is Phase.FORWARD else BACKWARD_PREFIX + record.tensor.name
        self.draft.add_tensor(replace(record.tensor, name=name), None, base=base)
        self.draft.add_view(name, base, code, part.phase)
        return Output(name, None, name)
