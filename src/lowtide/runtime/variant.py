"""One kept order of a program, emitted and bound to its kernels."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from lowtide.ir import Program
from lowtide.runtime.emit import Emitted, emit_program
from lowtide.runtime.load import load_functions


class Variant:
    """The two halves of a step, or an inference function, in one order.

    Args:
        emitted: The emitted program.
        kernels: Globals of the emitted code.
        program: Gives the planned program that was emitted; asked for at most once.
        keeping: Gives the program planned for `retain_graph`, whose backward writes into no saved tensor.
        title: Shown in tracebacks.
    """

    def __init__(
        self,
        emitted: Emitted,
        kernels: Mapping[str, Any],
        *,
        program: Callable[[], Program],
        keeping: Callable[[], Program],
        title: str,
    ) -> None:
        self.emitted = emitted
        self._kernels = kernels
        self._load_program = program
        self._load_keeping = keeping
        self._title = title

    @cached_property
    def program(self) -> Program:
        """The planned program that runs. Cost: read from its text at the first access, then kept."""
        return self._load_program()

    @cached_property
    def keeping(self) -> Program:
        """The program as it runs under `retain_graph`. Cost: planned at the first access, then kept."""
        return self._load_keeping()

    @cached_property
    def _functions(self) -> Mapping[str, Any]:
        return load_functions(self.emitted.source, self._kernels, self._title)

    @cached_property
    def forward(self) -> Any:
        """`forward(args) -> (outputs, tensors, dims)`; see `lowtide.runtime.emit`."""
        return self._functions["forward"]

    @cached_property
    def backward(self) -> Any:
        """`backward(tensors, dims, tangents) -> gradients`."""
        return self._functions["backward"]

    @cached_property
    def _backward_keeping(self) -> Any:
        emitted = emit_program(self.keeping)
        if emitted.state != self.emitted.state:
            raise AssertionError("bug: the state differs between the two forms of backward")
        return load_functions(emitted.source, self._kernels, f"{self._title} keeping")["backward"]

    def backward_keeping(self) -> Any:
        """Like `backward`, but every saved tensor stays as it is. Cost: planned and emitted at the first call."""
        return self._backward_keeping
