"""Reads a graph's structured wrapper lines into a `GraphRecord`, while Inductor's graph is still active.

Stages: tensors by name (from Inductor's buffers, inputs and constants); one `StatementRecord` per line that
does work; outputs as the wrapper returns them. Reads and writes come from the scheduler's dependencies and
from kernel argument types, never from the text; the text is only checked against them.

Control flow (cond, while) and sub-graphs are not handled: `UnsupportedGraphError`.
"""

# Inductor's internals are untyped or typed for its own use; what they are is held by tests on every torch version.
# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

import re
from collections.abc import Iterable
from typing import Any

import sympy
import torch
from torch._inductor import ir
from torch._inductor.codegen import wrapper as inductor_wrapper
from torch._inductor.virtualized import V

from lowtide.lower.inductor.device_lines import (
    align_statement,
    aligned_input,
    check_single_device,
    device_copy,
    triton_roles,
    use_aligned,
    without_streams,
)
from lowtide.lower.inductor.in_place import InPlaceFinder
from lowtide.lower.inductor.nodes import (
    constant_record,
    has_side_effect,
    is_random,
    library_call,
    tensor_record,
    viewed_operand,
    workspace_record,
)
from lowtide.lower.joint import (
    GraphRecord,
    InputRecord,
    OutputRecord,
    StatementRecord,
    TensorRecord,
    UnsupportedGraphError,
    bound_of,
    identifiers,
    model_line,
)


def read_graph(wrapper: Any) -> GraphRecord:
    """Read the graph that `wrapper` has just written.

    Args:
        wrapper: A `RecordingWrapper` whose lines have been written.

    Returns:
        The record, without module and source, which exist only after the module is written.

    Raises:
        UnsupportedGraphError: If the wrapper holds control flow or an unknown kind of line.

    Cost: linear in lines and operands.
    """
    return _GraphReader(wrapper).read()


class _GraphReader:
    def __init__(self, wrapper: Any) -> None:
        self.wrapper = wrapper
        self.graph = V.graph
        self.allocations: dict[str, TensorRecord] = {}
        self.statements: list[StatementRecord] = []
        self.tensors: set[str] = set()
        self.tuples: dict[str, StatementRecord] = {}
        self.makers: dict[str, StatementRecord] = {}
        self.in_place = InPlaceFinder(self.graph)
        self.condition = ""
        self.devices: set[int] = set()
        self.precomputed = {str(s) for s in self.graph.sizevars.inv_precomputed_replacements}
        self.numels: tuple[str, ...] = ()
        self.aligned: dict[str, str] = {}

    def read(self) -> GraphRecord:
        inputs = self._inputs()
        constants = self._constants()
        for recorded in self.wrapper.lines:
            self._line(recorded)
        for statement in self.statements:
            self._check_names(statement)
        return GraphRecord(
            inputs=inputs,
            statements=self.statements,
            allocations=self.allocations,
            outputs=self._outputs(),
            constants=constants,
            precomputed={
                str(s): self.graph.sizevars.remove_precomputed_replacements(e)
                for s, e in self.graph.sizevars.inv_precomputed_replacements.items()
            },
            ranges=self._ranges(),
            sources=self._sources(),
            replacements=dict(self.graph.sizevars.shape_env.replacements),
            guards=tuple(guard.expr for guard in self.graph.sizevars.shape_env.guards),
            output_strides=[self._output_stride(out) for out in self.graph.graph_outputs],
        )

    # -- tensors ---------------------------------------------------------------------------------------------

    def _inputs(self) -> list[InputRecord]:
        records: list[InputRecord] = []
        for name, value in self.graph.graph_inputs.items():
            if isinstance(value, ir.TensorBox):
                node = value.data.data if isinstance(value.data, ir.StorageBox) else value.data
                records.append(InputRecord(name, tensor=tensor_record(name, node)))
                self.tensors.add(name)
            elif isinstance(value, sympy.Expr):
                records.append(InputRecord(name, symbol=value))
            else:
                records.append(InputRecord(name))
                self.tensors.add(name)
        return records

    def _constants(self) -> dict[str, TensorRecord]:
        records: dict[str, TensorRecord] = {}
        for name, value in self.graph.constants.items():
            if not isinstance(value, torch.Tensor):
                continue
            records[name] = constant_record(name, value)
            self.tensors.add(name)
        return records

    # -- lines -----------------------------------------------------------------------------------------------

    def _line(self, recorded: Any) -> None:
        line, text = recorded.line, without_streams(recorded.text())
        if isinstance(line, inductor_wrapper.AllocateLine):
            name = line.node.get_name()
            if isinstance(line.node, ir.Buffer):
                self.allocations[name] = tensor_record(name, line.node)
                self.tensors.add(name)
            else:
                self._workspace_allocation(line)
        elif isinstance(
            line,
            (
                inductor_wrapper.FreeIfNotReusedLine,
                inductor_wrapper.FreeLine,
                inductor_wrapper.NullLine,
                inductor_wrapper.CommentLine,
                inductor_wrapper.KernelDefinitionLine,
                inductor_wrapper.ExitDeviceContextManagerLine,
            ),
        ):
            return
        elif isinstance(line, inductor_wrapper.EnterDeviceContextManagerLine):
            self.devices.add(line.device_idx)
            check_single_device(self.devices, f"graph {self.graph.graph_id}")
        elif isinstance(line, inductor_wrapper.SymbolicCallArgLine):
            if str(line.arg.inner) not in self.precomputed:
                self.numels += text  # names a size that the next kernel call takes
        elif isinstance(line, inductor_wrapper.ReinterpretLine):
            self._view(line.reused_as, line.node.get_name(), text)
        elif isinstance(line, inductor_wrapper.ReuseLine):
            self._view(line.reused_as, line.node.get_name(), (f"{line.reused_as.get_name()} = {line.node.get_name()}",))
        elif isinstance(line, inductor_wrapper.KernelCallLine):
            self._kernel_call(line, text)
        elif isinstance(line, inductor_wrapper.ExternKernelOutLine):
            self._extern_out(line.node, text)
        elif isinstance(line, inductor_wrapper.ExternKernelAllocLine):
            self._extern_alloc(line.node, text)
        elif isinstance(line, inductor_wrapper.MultiOutputLine):
            self._multi_output(line, text)
        elif isinstance(line, (inductor_wrapper.ScatterFallbackLine, inductor_wrapper.IndexPutFallbackLine)):
            self._mutating(line.node, text)
        elif isinstance(line, inductor_wrapper.UnbackedSymbolDefsLine):
            self._unbacked_definition(line, text)
        elif isinstance(line, inductor_wrapper.DynamicScalarLine):
            self._dynamic_scalar(line.node, text)
        elif isinstance(line, str) or not isinstance(line, inductor_wrapper.WrapperLine):
            self._plain(text)
        else:
            raise UnsupportedGraphError(
                "Inductor's wrapper holds a line that lowtide cannot account for.",
                found=f"{type(line).__name__}: {' / '.join(text)[:120] or 'no text'}",
                where=f"graph {self.graph.graph_id}, after {len(self.statements)} statements",
                fix="use backend='inductor' for this model, or remove the control flow from the compiled region.",
            )

    def _view(self, node: Any, base: str, text: tuple[str, ...]) -> None:
        name = node.get_name()
        self.tensors.add(name)
        self._add(
            StatementRecord("view", text, reads=(base,), defines=(tensor_record(name, node),), views={name: base})
        )

    def _kernel_call(self, line: Any, text: tuple[str, ...]) -> None:
        reads, writes = self._kernel_roles(line)
        origins = [
            node
            for name in writes
            if (op := self._scheduler_node(name)) is not None
            for leaf in op.get_nodes()
            if leaf.node is not None
            for node in leaf.node.get_origins()
        ]
        self._add(
            StatementRecord(
                line.kernel_name,
                (*self.numels, *text),
                reads=tuple(dict.fromkeys(reads)),
                writes=tuple(dict.fromkeys(writes)),
                may_reuse=tuple(self.in_place.find(reads, writes)),
                origin=model_line(origins),
            )
        )
        self.numels = ()

    def _kernel_roles(self, line: Any) -> tuple[list[str], list[str]]:
        if line.triton:
            return triton_roles(line, self.tensors)
        reads: list[str] = []
        writes: list[str] = []
        for arg, kind in zip(line.call_args, line.arg_types, strict=True):
            if isinstance(kind, str) and kind.endswith("*"):
                (reads if kind.startswith("const") else writes).append(arg)
        return reads, writes

    def _extern_out(self, node: Any, text: tuple[str, ...]) -> None:
        self._add(
            StatementRecord(
                node.get_kernel_name(),
                text,
                reads=self._reads(node),
                writes=(node.get_name(),),
                call=library_call(node),
                random=is_random(node),
                origin=model_line(node.get_origins()),
            )
        )

    def _extern_alloc(self, node: Any, text: tuple[str, ...]) -> None:
        name = node.get_name()
        mutated = tuple(node.get_mutation_names())
        aliases = tuple(node.get_inputs_that_alias_output())
        viewed = viewed_operand(node)
        statement = StatementRecord(
            node.get_kernel_name() or type(node).__name__,
            text,
            reads=self._reads(node),
            writes=mutated,
            call=library_call(node) if viewed is None else None,
            random=is_random(node),
            side_effect=has_side_effect(node),
            origin=model_line(node.get_origins()),
        )
        if isinstance(node.layout, ir.NoneLayout):
            pass  # the call only changes its inputs
        elif isinstance(node.layout, ir.MultiOutputLayout):
            self.tuples[name] = statement
            for output in _flatten(getattr(node, "outputs", None)):
                if output is not None and isinstance(output, ir.MultiOutput):
                    self._define_output(statement, output, name, viewed)
            statement.temporaries = (name,)
            statement.code += (f"del {name}",)
        else:
            statement.defines = (tensor_record(name, node),)
            if viewed or aliases:
                statement.views = {name: viewed or aliases[0]}
            self.tensors.add(name)
        self._add(statement)

    def _define_output(self, statement: StatementRecord, output: Any, base: str, viewed: str | None) -> None:
        name = output.get_name()
        access = base
        for kind, index in output.indices:
            access += f"['{index}']" if issubclass(kind, dict) else f"[{index}]"
        statement.code += (f"{name} = {access}",)
        aliases = output.get_inputs_that_alias_output()
        if isinstance(output.layout, ir.NoneLayout):
            return
        record = tensor_record(name, output)
        statement.defines += (record,)
        self.makers[name] = statement
        if viewed:
            statement.views = {**statement.views, name: viewed}
        elif aliases and aliases[0] != base:
            statement.views = {**statement.views, name: aliases[0]}
        self.tensors.add(name)

    def _multi_output(self, line: Any, text: tuple[str, ...]) -> None:
        if line.arg_name not in self.tuples:
            raise UnsupportedGraphError(
                "Inductor takes an output of a call that lowtide did not see.",
                found=" / ".join(text),
                where=f"graph {self.graph.graph_id}, after {len(self.statements)} statements",
                fix="report this with the model; backend='inductor' runs it meanwhile.",
            )

    def _mutating(self, node: Any, text: tuple[str, ...]) -> None:
        self._add(
            StatementRecord(
                node.get_kernel_name() or type(node).__name__,
                text,
                reads=self._reads(node),
                writes=tuple(node.get_mutation_names()),
                call=library_call(node),
                origin=model_line(node.get_origins()),
            )
        )

    def _unbacked_definition(self, line: Any, text: tuple[str, ...]) -> None:
        symbols = tuple(str(s) for s in (line.unbacked_bindings or {}))
        if not symbols and not text:
            return  # as behind operators that only check something
        statement = self.tuples.get(line.output_name) or self.makers.get(line.output_name)
        if statement is None:
            self._add(StatementRecord("sizes", text, reads=(line.output_name,), symbols=symbols))
            return
        # The tuple is dropped at the end of the statement: sizes are read before that.
        tail = statement.code[-1:] if statement.code[-1].startswith("del ") else ()
        head = statement.code[: len(statement.code) - len(tail)]
        statement.code = (*head, *text, *tail)
        statement.symbols += symbols

    def _dynamic_scalar(self, node: Any, text: tuple[str, ...]) -> None:
        self._add(
            StatementRecord(
                "item",
                tuple(t for t in text if t != f"{node.get_name()} = None"),
                reads=self._reads(node),
                symbols=(str(node.sym),),  # its bindings have the name it had before it was found equal to another
            )
        )

    def _workspace_allocation(self, line: Any) -> None:
        record = workspace_record(line.node)
        self.allocations[record.name] = record
        self.tensors.add(record.name)

    def _plain(self, text: tuple[str, ...]) -> None:
        names = [n for t in text for n in identifiers(t)]
        touched = tuple(dict.fromkeys(n for n in names if n in self.tensors))
        if len(text) == 1 and text[0].startswith("if not ") and text[0].endswith(":"):
            self.condition = text[0]
            return
        if self.condition and len(text) == 1 and text[0].startswith("raise "):
            # A check of sizes that torch could not decide when it compiled.
            self._add(StatementRecord("check", (f"{self.condition} {text[0]}",), reads=touched, side_effect=True))
            self.condition = ""
            return
        if not touched:
            return
        match = re.fullmatch(r"(\w+)\.zero_\(\)", text[0]) if len(text) == 1 else None
        if match:
            self._add(StatementRecord("zero_", text, writes=(match.group(1),)))
            return
        copy = device_copy(text, self.tensors)
        if copy is not None:
            self._add(copy)
            return
        misaligned = aligned_input(text)
        if misaligned is not None:
            self._align(misaligned)
            return
        raise UnsupportedGraphError(
            "Inductor's wrapper holds a free-form line that lowtide cannot account for.",
            found=" / ".join(text)[:160],
            where=f"graph {self.graph.graph_id}, after {len(self.statements)} statements",
            fix="use backend='inductor' for this model and report the line.",
        )

    def _align(self, name: str) -> None:
        """Give a graph input a second name, under which it is aligned from here on."""
        node = self.graph.graph_inputs[name]
        node = node.data.data if isinstance(node.data, ir.StorageBox) else node.data
        aligned = f"{name}_aligned"
        self._add(align_statement(name, tensor_record(aligned, node)))
        self.tensors.add(aligned)
        self.aligned[name] = aligned

    def _add(self, statement: StatementRecord) -> None:
        use_aligned(statement, self.aligned)
        self.statements.append(statement)
        self.makers.update((defined.name, statement) for defined in statement.defines)

    # -- facts -----------------------------------------------------------------------------------------------

    def _scheduler_node(self, buffer: str) -> Any:
        return self.graph.scheduler.name_to_fused_node.get(self._operation_of(buffer))

    def _operation_of(self, buffer: str) -> str:
        scheduled = self.graph.scheduler.name_to_buf.get(buffer)
        return scheduled.defining_op_name() if scheduled is not None else ""

    def _reads(self, node: Any) -> tuple[str, ...]:
        scheduled = self.graph.scheduler.name_to_node.get(node.get_operation_name())
        names: Iterable[str]
        names = (d.name for d in scheduled.read_writes.reads) if scheduled is not None else node.get_read_names()
        real = self.graph.scheduler.mutation_real_name
        return tuple(dict.fromkeys(n for n in (real.get(n, n) for n in names) if n in self.tensors))

    def _check_names(self, statement: StatementRecord) -> None:
        known = {*statement.reads, *statement.writes, *(d.name for d in statement.defines)}
        used = {n for text in statement.code for n in identifiers(text) if n in self.tensors}
        missing = used - known
        if missing:
            raise UnsupportedGraphError(
                "A statement names tensors that its declared reads and writes leave out.",
                found=f"{', '.join(sorted(missing))} in: {statement.code[0][:160]}",
                where=f"statement {statement.op}",
                fix="report this with the model; backend='inductor' runs it meanwhile.",
            )

    def _outputs(self) -> list[OutputRecord]:
        outputs: list[OutputRecord] = []
        references = self.wrapper.get_output_refs()
        for index, (value, code) in enumerate(zip(self.graph.graph_outputs, references, strict=True)):
            if isinstance(value, ir.NoneAsConstantBuffer):
                outputs.append(OutputRecord("None", ()))
            elif isinstance(value, ir.ShapeAsConstantBuffer):
                outputs.append(OutputRecord(code, (), integer=sympy.sympify(value.expr)))
            else:
                reads = tuple(dict.fromkeys(n for n in identifiers(code) if n in self.tensors))
                seen = tensor_record(f"out{index}", value) if code not in self.tensors else None
                outputs.append(OutputRecord(code, reads, is_tensor=True, tensor=seen))
        return outputs

    def _output_stride(self, output: Any) -> tuple[sympy.Expr, ...] | None:
        if isinstance(output, ir.IRNode) and output.has_tensor_output():
            return tuple(sympy.sympify(s) for s in output.get_layout().stride)
        return None

    def _ranges(self) -> dict[str, tuple[int | None, int | None]]:
        ranges: dict[str, tuple[int | None, int | None]] = {}
        for symbol, value in self.graph.sizevars.shape_env.var_to_range.items():
            ranges[str(symbol)] = (bound_of(value.lower), bound_of(value.upper))
        return ranges

    def _sources(self) -> dict[str, str]:
        found = self.graph.sizevars.shape_env.var_to_sources
        return {str(symbol): str(sources[0].name) for symbol, sources in found.items() if sources}


def _flatten(outputs: Any) -> list[Any]:
    if isinstance(outputs, (list, tuple)):
        return [leaf for output in outputs for leaf in _flatten(output)]
    return [outputs]
