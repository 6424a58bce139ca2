"""A program that can be called: its kept orders, the choice between them, and the state between its two halves."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch

from lowtide.ir import Program, Statement
from lowtide.runtime.choice import OrderChooser
from lowtide.runtime.form import BackwardForm
from lowtide.runtime.link import link_to
from lowtide.runtime.load import load_functions
from lowtide.runtime.probe import probe_workspace
from lowtide.runtime.recorder import active_recorder
from lowtide.runtime.state import SavedState
from lowtide.runtime.step import CallKind, machine_sizes
from lowtide.runtime.variant import Variant

_MOST_PROBED = 4096


class Executable:
    """The two halves of a step, or an inference function, ready to be called.

    Args:
        variants: The program in each order that was kept; all have the same inputs, outputs and dimension variables.
        kernels: Globals of the emitted code.
        sizes: What `emit_sizes` wrote.
        captured: Gives the program as it was captured, before planning.
        chooser: Chooses among them by the sizes of a call.
        kept_apart: How many pairs of loops could have been one kernel and were not, to spare memory.
        title: Shown in tracebacks.
    """

    def __init__(
        self,
        variants: Sequence[Variant],
        kernels: Mapping[str, Any],
        *,
        sizes: str,
        captured: Callable[[], Program],
        chooser: OrderChooser,
        kept_apart: int,
        title: str,
    ) -> None:
        self.title = title
        self.kept_apart = kept_apart
        self._load_captured = captured
        self.variants = tuple(variants)
        self._kernels = kernels
        self._chooser = chooser
        self._sizes_source = sizes
        self._probed: dict[tuple[Any, ...], int] = {}

    @property
    def program(self) -> Program:
        """The planned program in the first kept order: what it computes, reads and returns is that of every order."""
        return self.variants[0].program

    @property
    def captured(self) -> Program:
        """The program as it was captured: in its own order, no storage shared. Cost: read from its text, then kept."""
        return self._load_captured()

    def program_at(self, valuation: Mapping[str, int], form: BackwardForm = BackwardForm.PLAIN) -> Program:
        """The planned program in the order that runs at given sizes, with a form of backward."""
        return self.variants[self._chooser.choose(valuation)].program_in(form)

    def probe(self, statement: Statement, valuation: Mapping[str, int]) -> int:
        """Measure the workspace of one statement at given sizes, in bytes; see `probe_workspace`.

        Cost: at sizes seen before, a look-up in what is kept for some thousand statements and sizes.
        """
        key = (statement.name, torch.get_num_threads(), *sorted(valuation.items()))
        found = self._probed.get(key)
        if found is None:
            found = probe_workspace(self.program, statement, self._kernels, valuation)
            if len(self._probed) >= _MOST_PROBED:
                self._probed.clear()
            self._probed[key] = found
        return found

    def infer(self, args: list[Any]) -> list[Any]:
        """Run a program without backward. The list of arguments is emptied."""
        recorder = active_recorder()
        variant = self._variant_for(args)
        if recorder is None:
            outputs, _, _ = variant.forward(args)
            return list(outputs)
        place = recorder.enter_forward(self, CallKind.INFERENCE, self._sizes(args), args)
        outputs, _, _ = variant.forward(args)
        recorder.leave_forward(place, outputs, None, ())
        return list(outputs)

    def forward(self, args: list[Any]) -> list[Any]:
        """Run forward. The list of arguments is emptied; a link (`link_to`) and the saved state follow the outputs."""
        recorder = active_recorder()
        variant = self._variant_for(args)
        if recorder is None:
            outputs, link, state = _run_forward(variant, args)
            return [*outputs, link, state]
        place = recorder.enter_forward(self, CallKind.FORWARD, self._sizes(args), args)
        outputs, link, state = _run_forward(variant, args)
        recorder.leave_forward(place, outputs, state, variant.emitted.state)
        return [*outputs, link, state]

    def _variant_for(self, args: list[Any]) -> Variant:
        if len(self.variants) == 1:
            return self.variants[0]
        return self.variants[self._chooser.choose({**self._sizes(args), **machine_sizes()})]

    @cached_property
    def _sizes(self) -> Callable[[list[Any]], dict[str, int]]:
        """Tells what the arguments of a call make of the dimension variables."""
        functions = load_functions(self._sizes_source, {}, f"{self.title} sizes")
        sizes: Callable[[list[Any]], dict[str, int]] = functions["sizes"]
        return sizes


def _run_forward(variant: Variant, args: list[Any]) -> tuple[list[Any], Any, SavedState]:
    link = link_to(args)
    emitted = variant.emitted
    outputs, tensors, dims = variant.forward(args)
    watched = [tensors[i] for i in emitted.watched]
    watched += [outputs[i].detach() for i in emitted.shared_outputs]
    state = SavedState(tensors, dims, watched, variant.backward_in, emitted.written_tangents)
    return list(outputs), link, state
