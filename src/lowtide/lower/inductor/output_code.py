"""What torch's compile caches store for a lowtide program, and what AOTAutograd calls.

An `Artifact` is everything needed to run a program again without compiling: the two generated modules, the
emitted code, the program's text. `ForwardCode` carries it; `BackwardCode` only unpacks the state, which knows
how to go on. Both are pickled by torch's own caches.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch._inductor.codecache import PyCodeCache
from torch._inductor.output_code import OutputCode
from torch._inductor.utils import set_tracing_context_output_strides

from lowtide.lower.inductor.translation_units import resolve, shared_units
from lowtide.lower.joint import KernelSource, take_state


@dataclasses.dataclass(frozen=True)
class Artifact:
    """A compiled program at rest.

    Attributes:
        title: Name shown in tracebacks and reports.
        forward_source: Text of forward's generated module.
        backward_source: Text of backward's generated module, or None.
        forward_constants: Tensors the forward module holds.
        backward_constants: Tensors the backward module holds.
        kernels: Where each name used by the emitted code is found.
        payload: What the runtime made of the program, opaque here and picklable.
        output_strides: Per output, its strides as text, for AOTAutograd.
    """

    title: str
    forward_source: str
    backward_source: str | None
    forward_constants: Mapping[str, Any]
    backward_constants: Mapping[str, Any]
    kernels: Mapping[str, KernelSource]
    payload: Any
    output_strides: list[tuple[str, ...] | None] | None


Loader = Callable[[Artifact, Mapping[str, Any]], Any]
"""Makes something runnable of an artifact and its kernels: has `forward`, `infer` and `title`."""


def load_kernels(artifact: Artifact) -> dict[str, Any]:
    """Load the generated modules from source and pick the names that the emitted code uses.

    Cost: compiles what the kernel cache does not have.
    """
    forward = _load_module(artifact.forward_source, artifact.forward_constants)
    backward = (
        {} if artifact.backward_source is None else _load_module(artifact.backward_source, artifact.backward_constants)
    )
    return pick_kernels(artifact.kernels, forward, backward)


def pick_kernels(
    kernels: Mapping[str, KernelSource], forward: Mapping[str, Any], backward: Mapping[str, Any]
) -> dict[str, Any]:
    """Take the used names out of the two modules' namespaces. Waits for kernels that are being compiled."""
    found = {name: (backward if source.backward else forward)[source.name] for name, source in kernels.items()}
    return {name: resolve(kernel) for name, kernel in found.items()}


def _load_module(source: str, constants: Mapping[str, Any]) -> dict[str, Any]:
    key, path = PyCodeCache.write(source)
    # One context for each module, as when it was compiled: the units are the same and are found in the kernel cache.
    with shared_units():
        return PyCodeCache.load_by_key_path(key, path, attrs=dict(constants) or None).__dict__


@dataclasses.dataclass
class ForwardCode(OutputCode):
    """The callable that AOTAutograd takes for a forward or an inference graph."""

    artifact: Artifact
    is_inference: bool
    loader: Loader
    runnable: Any = dataclasses.field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        self._boxed_call = True

    def __call__(self, inputs: Sequence[Any]) -> Any:
        """Run; the list of inputs is emptied."""
        args = inputs if isinstance(inputs, list) else list(inputs)
        return self.runnable.infer(args) if self.is_inference else self.runnable.forward(args)

    def post_compile(self, example_inputs: Sequence[Any], constants: Any, graph_kwargs: Any) -> None:
        """Load what is missing and tell AOTAutograd the strides of the outputs."""
        if self.runnable is None:
            self.runnable = self.loader(self.artifact, load_kernels(self.artifact))
        if self.artifact.output_strides is not None:
            carrier: Any = self.artifact  # only its output_strides are looked at
            set_tracing_context_output_strides(example_inputs, carrier)

    def prepare_for_serialization(self) -> None:
        """Drop what cannot be stored."""
        self.runnable = None

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """Accept torch's bundle of compiled GPU kernels; they are found again through their own cache."""


@dataclasses.dataclass
class BackwardCode(OutputCode):
    """The callable that AOTAutograd takes for a backward graph: the saved state does the work."""

    keep_graph: Callable[[], bool]

    def __post_init__(self) -> None:
        self._boxed_call = True

    def __call__(self, inputs: Sequence[Any]) -> Any:
        """Run backward; the list of inputs is emptied."""
        args = inputs if isinstance(inputs, list) else list(inputs)
        state, tangents = take_state(args)
        return state.run_backward(tangents, keep=self.keep_graph())

    def post_compile(self, example_inputs: Sequence[Any], constants: Any, graph_kwargs: Any) -> None:
        """Nothing is missing."""

    def prepare_for_serialization(self) -> None:
        """Nothing needs dropping."""

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """Backward has no kernels of its own."""
