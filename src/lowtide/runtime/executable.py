"""A program that can be called: emitted code bound to its kernels, with the state between its two halves."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from lowtide.ir import Program, Statement
from lowtide.runtime.emit import Emitted, emit_sizes
from lowtide.runtime.link import link_to
from lowtide.runtime.load import load_functions
from lowtide.runtime.probe import probe_workspace
from lowtide.runtime.recorder import active_recorder
from lowtide.runtime.state import SavedState
from lowtide.runtime.step import CallKind


class Executable:
    """The two halves of a step, or an inference function, ready to be called.

    Args:
        emitted: The emitted program.
        kernels: Globals of the emitted code.
        program: Gives the planned program that was emitted; asked for at most once.
        keeping: Makes the emitted program for `retain_graph`, whose backward writes into no saved tensor.
        title: Shown in tracebacks.
    """

    def __init__(
        self,
        emitted: Emitted,
        kernels: Mapping[str, Any],
        *,
        program: Callable[[], Program],
        keeping: Callable[[], Emitted],
        title: str,
    ) -> None:
        self.title = title
        self._emitted = emitted
        self._kernels = kernels
        self._keeping = keeping
        self._load_program = program
        self._program: Program | None = None
        functions = load_functions(emitted.source, kernels, title)
        self._forward = functions["forward"]
        self._backward: Any = functions.get("backward")
        self._backward_keeping: Any = None
        self._sizes_of: Any = None
        self._probed: dict[tuple[Any, ...], int] = {}

    @property
    def program(self) -> Program:
        """The planned program that runs. Cost: read from its text at the first access, then kept."""
        if self._program is None:
            self._program = self._load_program()
        return self._program

    def probe(self, statement: Statement, valuation: Mapping[str, int]) -> int:
        """Measure the workspace of one statement at given sizes, in bytes; see `probe_workspace`. Kept."""
        key = (statement.name, torch.get_num_threads(), *sorted(valuation.items()))
        if key not in self._probed:
            self._probed[key] = probe_workspace(self.program, statement, self._kernels, valuation)
        return self._probed[key]

    def infer(self, args: list[Any]) -> list[Any]:
        """Run a program without backward. The list of arguments is emptied."""
        recorder = active_recorder()
        if recorder is None:
            outputs, _, _ = self._forward(args)
            return list(outputs)
        place = recorder.enter_forward(self.program, CallKind.INFERENCE, self._sizes(args), args, self.probe)
        outputs, _, _ = self._forward(args)
        recorder.leave_forward(place, outputs, None, ())
        return list(outputs)

    def forward(self, args: list[Any]) -> list[Any]:
        """Run forward. The list of arguments is emptied; a link (`link_to`) and the saved state follow the outputs."""
        recorder = active_recorder()
        if recorder is None:
            outputs, link, state = self._run_forward(args)
            return [*outputs, link, state]
        place = recorder.enter_forward(self.program, CallKind.FORWARD, self._sizes(args), args, self.probe)
        outputs, link, state = self._run_forward(args)
        recorder.leave_forward(place, outputs, state, self._emitted.state)
        return [*outputs, link, state]

    def _run_forward(self, args: list[Any]) -> tuple[list[Any], Any, SavedState]:
        link = link_to(args)
        outputs, tensors, dims = self._forward(args)
        watched = [tensors[i] for i in self._emitted.watched]
        watched += [outputs[i].detach() for i in self._emitted.shared_outputs]
        state = SavedState(tensors, dims, watched, self._backward, self._keeping_backward)
        return list(outputs), link, state

    def _sizes(self, args: list[Any]) -> dict[str, int]:
        if self._sizes_of is None:
            self._sizes_of = load_functions(emit_sizes(self.program), {}, f"{self.title} sizes")["sizes"]
        return dict(self._sizes_of(args))

    def _keeping_backward(self) -> Any:
        if self._backward_keeping is None:
            emitted = self._keeping()
            if emitted.state != self._emitted.state:
                raise AssertionError("bug: the state differs between the two forms of backward")
            self._backward_keeping = load_functions(emitted.source, self._kernels, f"{self.title} keeping")["backward"]
        return self._backward_keeping
