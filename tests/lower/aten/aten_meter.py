"""Compile with the aten lowering, without the backend's front door, and keep what the tests look at."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from lowtide import measure_peak
from lowtide.analysis import memory_profile
from lowtide.ir import Program, verify_program
from lowtide.lower.aten import AtenArtifact, compile_with_aten
from lowtide.lower.joint import Assembled, Hooks
from lowtide.runtime.choice import OrderChooser
from lowtide.runtime.emit import emit_program, emit_sizes
from lowtide.runtime.executable import Executable
from lowtide.runtime.state import SavedState, graph_is_kept
from lowtide.runtime.variant import Variant


@dataclass
class Recorder:
    """A torch.compile backend that keeps its programs and the sizes of their latest call."""

    programs: list[Program] = field(default_factory=list)
    sizes: dict[int, dict[str, int]] = field(default_factory=dict)

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        hooks = Hooks(
            plan=self._plan,
            load=self._load,
            keep_graph=graph_is_kept,
            state_value=lambda: SavedState([], (), (), lambda _: _never),
            identity="test",
        )
        return compile_with_aten(gm, example_inputs, hooks)

    @property
    def program(self) -> Program:
        (program,) = self.programs
        return program

    def predicted_peak(self, more: Mapping[str, int] | None = None) -> int:
        """The predicted peak in bytes at the sizes of the latest call.

        `loss.backward()` itself holds the gradient of the loss until it returns; other tangents nobody else holds.
        """
        program = self.program
        held = [program.values[tangent].buffer for tangent in program.tangents if not program.values[tangent].shape]
        return memory_profile(program, tangents_held=held).peak_at({**self.sizes[0], **(more or {})}).bytes

    def _plan(self, assembled: Assembled) -> Program:
        verify_program(assembled.program)
        self.programs.append(assembled.program)
        return assembled.program

    def _load(self, artifact: AtenArtifact, kernels: Mapping[str, Any]) -> "_Observed":
        program: Program = artifact.payload
        variant = Variant(
            emit_program(program),
            kernels,
            planned=lambda _: program,
            title=artifact.title,
        )
        executable = Executable(
            [variant],
            kernels,
            sizes=emit_sizes(program),
            captured=lambda: program,
            chooser=OrderChooser(()),
            kept_apart=0,
            title=artifact.title,
        )
        return _Observed(executable, self, len(self.programs) - 1)


@dataclass
class _Observed:
    executable: Executable
    recorder: Recorder
    number: int

    def forward(self, args: list[Any]) -> Any:
        self._note(args)
        return self.executable.forward(args)

    def infer(self, args: list[Any]) -> Any:
        self._note(args)
        return self.executable.infer(args)

    def _note(self, args: list[Any]) -> None:
        program = self.recorder.programs[self.number]
        found: dict[str, Any] = dict(zip(program.inputs, args, strict=True))
        for binding in program.entry_dims:
            if binding.code:
                found[binding.dim] = eval(binding.code, {"torch": torch, "math": math}, found)
            else:
                source = found[binding.source]
                found[binding.dim] = source if binding.axis is None else source.size(binding.axis)
        self.recorder.sizes[self.number] = {
            name: found[name] for name in program.scope.ranges if isinstance(found.get(name), int)
        }


def unknown_workspaces(program: Program) -> set[str]:
    return {space.name for statement in program.statements for space in statement.workspace if space.size is None}


def measured_peak(run: Callable[[], Any]) -> int:
    return measure_peak(run).peak_bytes


def tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for part in value.values() for t in tensors(part)]
    if isinstance(value, (list, tuple)):
        return [t for part in value for t in tensors(part)]
    return []


def _never(*_: Any) -> Any:
    raise AssertionError("an example state was run backward")
