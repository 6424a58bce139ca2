"""A program that can be called: emitted code bound to its kernels, with the state between its two halves."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._C._dynamo.guards import _empty_strided_cpu, _empty_strided_cuda, _reinterpret_tensor

from lowtide.ir import Program
from lowtide.runtime.emit import ALIAS, Emitted
from lowtide.runtime.state import SavedState


def _second_handle(tensor: torch.Tensor) -> torch.Tensor:
    """Another tensor object on the same storage, sharing its version counter.

    autograd hangs the graph on the object that forward returns. If that same object stayed in the state that
    the graph holds, neither would ever be freed.
    """
    return tensor.detach()


_GLOBALS: dict[str, Any] = {
    "torch": torch,
    "empty_strided_cpu": _empty_strided_cpu,
    "empty_strided_cuda": _empty_strided_cuda,
    "reinterpret_tensor": _reinterpret_tensor,
    ALIAS: _second_handle,
}


def load_functions(source: str, names: Mapping[str, Any], title: str) -> dict[str, Any]:
    """Run emitted source in a namespace of its own, with the given names as globals.

    Args:
        source: Text from `emit_program`: written by lowtide, never by a stranger.
        names: Kernels and helpers.
        title: Shown in tracebacks in the place of a file name.
    """
    namespace = {**_GLOBALS, **names}
    exec(compile(source, f"<lowtide {title}>", "exec"), namespace)
    return namespace


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
        self._backward = functions.get("backward")
        self._backward_keeping: Any = None

    @property
    def program(self) -> Program:
        """The planned program that runs. Cost: read from its text at the first access, then kept."""
        if self._program is None:
            self._program = self._load_program()
        return self._program

    def infer(self, args: list[Any]) -> list[Any]:
        """Run a program without backward. The list of arguments is emptied."""
        outputs, _, _ = self._forward(args)
        return list(outputs)

    def forward(self, args: list[Any]) -> list[Any]:
        """Run forward. The list of arguments is emptied; the saved state comes after the outputs."""
        outputs, tensors, dims = self._forward(args)
        watched = [tensors[i] for i in self._emitted.watched]
        watched += [outputs[i].detach() for i in self._emitted.shared_outputs]
        state = SavedState(tensors, dims, watched, self._backward, self._keeping_backward)
        return [*outputs, state]

    def _keeping_backward(self) -> Any:
        if self._backward_keeping is None:
            emitted = self._keeping()
            if emitted.state != self._emitted.state:
                raise AssertionError("bug: the state differs between the two forms of backward")
            self._backward_keeping = load_functions(emitted.source, self._kernels, f"{self.title} keeping")["backward"]
        return self._backward_keeping
