"""One kept order of a program, emitted and bound to its kernels."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from lowtide.ir import Program
from lowtide.runtime.emit import Emitted, emit_program
from lowtide.runtime.form import BackwardForm
from lowtide.runtime.load import load_functions


class Variant:
    """The two halves of a step, or an inference function, in one order.

    Args:
        emitted: The emitted program, whose backward has the plain form.
        kernels: Globals of the emitted code.
        planned: Gives the planned program whose backward has a form; asked for at most once for each.
        title: Shown in tracebacks.
    """

    def __init__(
        self,
        emitted: Emitted,
        kernels: Mapping[str, Any],
        *,
        planned: Callable[[BackwardForm], Program],
        title: str,
    ) -> None:
        self.emitted = emitted
        self._kernels = kernels
        self._planned = planned
        self._title = title
        self._programs: dict[BackwardForm, Program] = {}
        self._backwards: dict[BackwardForm, Any] = {}

    @property
    def program(self) -> Program:
        """The planned program that runs, with the plain form of backward."""
        return self.program_in(BackwardForm.PLAIN)

    def program_in(self, form: BackwardForm) -> Program:
        """The planned program with a form of backward. Cost: planned at the first access, then kept."""
        if form not in self._programs:
            self._programs[form] = self._planned(form)
        return self._programs[form]

    @cached_property
    def _functions(self) -> Mapping[str, Any]:
        return load_functions(self.emitted.source, self._kernels, self._title)

    @cached_property
    def forward(self) -> Any:
        """`forward(args) -> (outputs, tensors, dims)`; see `lowtide.runtime.emit`."""
        return self._functions["forward"]

    def backward_in(self, form: BackwardForm) -> Any:
        """`backward(tensors, dims, tangents) -> gradients`. Cost: other forms are emitted when first needed."""
        if form not in self._backwards:
            self._backwards[form] = self._load_backward(form)
        return self._backwards[form]

    def _load_backward(self, form: BackwardForm) -> Any:
        if form is BackwardForm.PLAIN:
            return self._functions["backward"]
        emitted = emit_program(self.program_in(form))
        if emitted.state != self.emitted.state:
            raise AssertionError("bug: the state differs between the forms of backward")
        return load_functions(emitted.source, self._kernels, f"{self._title} {form}")["backward"]
