"""A wrapper generator for Inductor that keeps every line's text beside the structured line it came from.

Inductor first collects wrapper lines (allocations, kernel calls, library calls), then writes them as Python.
Reads, writes, aliases and sizes are known only to the structured lines; the exact call text only to the
writer. `RecordedLine` ties the two, and `read_graph` (reader.py) turns them into a `GraphRecord` while the
graph's virtualized state is still active.
"""

# Inductor's internals are untyped or typed for its own use; what they are is held by tests on every torch version.
# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
import torch._inductor.config as inductor_config
from torch._inductor.codegen import wrapper as inductor_wrapper
from torch._inductor.codegen.common import device_codegens, init_backend_registration
from torch._inductor.graph import GraphLowering
from torch._inductor.utils import IndentedBuffer

from lowtide.lower.inductor.kernel_groups import loops_kept_apart, make_scheduling
from lowtide.lower.inductor.reader import read_graph
from lowtide.lower.inductor.translation_units import shared_units
from lowtide.lower.joint import GraphRecord

# Inductor's own reuse and in-place decisions give way to the plan's. Size and alignment asserts are lines of
# the wrapper between statements; the runtime checks what it must at entry.
_CONFIG: dict[str, Any] = {
    "allow_buffer_reuse": False,
    "inplace_buffers": False,
    "memory_planning": False,
    "graph_partition": False,
    "size_asserts": False,
    "alignment_asserts": False,
    "fx_graph_cache": False,
    "fx_graph_remote_cache": False,
    "cpp_wrapper": False,
}


class RecordedLine(inductor_wrapper.WrapperLine):
    """A wrapper line that remembers the text it was written as."""

    def __init__(self, line: Any) -> None:
        self.line = line
        self._written: list[Any] = []

    def codegen(self, code: IndentedBuffer) -> None:
        """Write the line and keep what was written."""
        start = len(code._lines)
        if isinstance(self.line, inductor_wrapper.WrapperLine):
            self.line.codegen(code)
        else:
            code.writeline(self.line)
        self._written = code._lines[start:]

    def text(self) -> tuple[str, ...]:
        """The Python lines, without the indentation of the wrapper's body and without comments."""
        lines: list[str] = []
        for written in self._written:
            entry = written() if isinstance(written, inductor_wrapper.DeferredLineBase) else written
            if entry is None or isinstance(entry, inductor_wrapper.LineContext):
                continue
            text = str(getattr(entry, "line", entry)).strip()
            if text and not text.startswith("#"):
                lines.append(text)
        return tuple(lines)


class RecordingWrapper(inductor_wrapper.PythonWrapperCodegen):
    """The Python wrapper generator, recording. Subgraphs (control flow) keep the stock generator."""

    @staticmethod
    def create(
        is_subgraph: bool,
        subgraph_name: str | None,
        parent_wrapper: inductor_wrapper.PythonWrapperCodegen | None,
        partition_signatures: Any = None,
    ) -> inductor_wrapper.PythonWrapperCodegen:
        """Make the generator for a graph; called by Inductor."""
        if is_subgraph:
            return inductor_wrapper.PythonWrapperCodegen.create(
                is_subgraph, subgraph_name, parent_wrapper, partition_signatures
            )
        return RecordingWrapper()

    def run_wrapper_ir_passes(self, is_inference: bool) -> None:
        """Run Inductor's line passes, then start recording."""
        super().run_wrapper_ir_passes(is_inference)
        self.lines = [RecordedLine(line) for line in self.lines]

    def _generate(self, is_inference: bool) -> Any:
        result = super()._generate(is_inference)
        self.graph_record = read_graph(self)
        return result


@contextlib.contextmanager
def recording() -> Iterator[Callable[[], GraphRecord]]:
    """Lower one graph with Inductor inside this context; the yielded function returns its record.

    Raises:
        AssertionError: From the yielded function, if not exactly one graph was lowered.
    """
    init_backend_registration()
    records: list[GraphRecord] = []
    compile_to_module = GraphLowering.compile_to_module

    def compile_and_record(self: GraphLowering) -> Any:
        module = compile_to_module(self)
        record: GraphRecord = self.wrapper_code.graph_record
        record.module = module.__dict__
        record.kept_apart = loops_kept_apart(self.scheduler)
        with open(str(module.__file__)) as file:
            record.source = file.read()
        records.append(record)
        return module

    def only_record() -> GraphRecord:
        assert len(records) == 1, f"bug: expected one lowered graph, found {len(records)}"
        return records[0]

    with contextlib.ExitStack() as stack:
        for device in ("cpu", "cuda"):
            if device in device_codegens:
                stack.enter_context(mock.patch.object(device_codegens[device], "wrapper_codegen", RecordingWrapper))
        stack.enter_context(mock.patch.object(device_codegens["cpu"], "scheduling", make_scheduling))
        stack.enter_context(mock.patch.object(GraphLowering, "compile_to_module", compile_and_record))
        stack.enter_context(shared_units())
        stack.enter_context(inductor_config.patch(_CONFIG))
        # A graph without calls would come back as a plain function, without a wrapper to record.
        stack.enter_context(torch._functorch.config.patch(bundled_autograd_cache=True))
        yield only_record
