"""Compiles a graph captured by dynamo into a program of plain aten calls.

Nothing is generated but Python: AOTAutograd traces and partitions the graph as for torch.compile, and every operator
of the result is called as it is. Slower than generated kernels, quick to compile, and independent of Inductor.
"""

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch._functorch.config as functorch_config
import torch.fx as fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch import partitioners
from torch._functorch.partitioners import min_cut_rematerialization_partition

from lowtide.errors import own_faults
from lowtide.lower.aten.decompositions import aten_decompositions
from lowtide.lower.aten.reader import read_graph
from lowtide.lower.aten.replay import fill_values
from lowtide.lower.joint import (
    BACKWARD_KEY,
    FORWARD_KEY,
    Handle,
    Hooks,
    Joint,
    assemble_program,
    canonical_hints,
    compile_title,
    compiled_forward,
    make_stubs,
    mark_numbers,
    numbers_passed_as_tensors,
    output_node,
    placeholder_positions,
    saved_placeholders,
    shape_env_of,
    take_state,
)

# By name, because some versions of torch do not have all of them.
_CONFIG = {"unlift_effect_tokens": True, "force_non_lazy_backward_lowering": True}


@dataclasses.dataclass(frozen=True)
class AtenArtifact:
    """A program of aten calls at rest.

    Attributes:
        title: Name shown in tracebacks and reports.
        payload: What the runtime made of the program.
    """

    title: str
    payload: Any


def compile_with_aten(gm: fx.GraphModule, example_inputs: Sequence[Any], hooks: Hooks) -> Callable[..., Any]:
    """Compile a graph captured by dynamo into programs of aten calls.

    Args:
        gm: The graph.
        example_inputs: Its inputs.
        hooks: The runtime's part.

    Returns:
        The callable for dynamo.

    Raises:
        UnsupportedGraphError, UnboundedSizeError: If the graph cannot be accounted for.

    Cost: AOTAutograd's tracing, plus time linear in the graph; no kernels are compiled and nothing is cached.
    """
    compiler = _Compiler(compile_title(), hooks, numbers_passed_as_tensors(gm))
    backend = aot_autograd(
        fw_compiler=compiler.forward,
        bw_compiler=compiler.backward,
        inference_compiler=compiler.inference,
        partition_fn=compiler.partition,
        decompositions=aten_decompositions(),
        keep_inference_input_mutations=True,
    )
    patches = {name: value for name, value in _CONFIG.items() if hasattr(functorch_config, name)}
    with functorch_config.patch(patches):
        return backend(gm, example_inputs)


class _Compiler:
    """The places where AOTAutograd asks for a partition or a compiled graph."""

    def __init__(self, title: str, hooks: Hooks, numbers: Collection[int]) -> None:
        self._title = title
        self._hooks = hooks
        self._numbers = numbers

    def partition(
        self, gm: fx.GraphModule, joint_inputs: Sequence[Any], **kwargs: Any
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Split a training graph, make the program, and return stubs."""
        num_forward_outputs: int = kwargs["num_fwd_outputs"]
        with canonical_hints(shape_env_of(gm), (partitioners,)):
            forward, backward = min_cut_rematerialization_partition(gm, joint_inputs, compiler="inductor", **kwargs)
        outputs: Any = output_node(forward).args[0]
        saved = saved_placeholders(forward, backward, num_forward_outputs)
        given = [out.name for out in outputs[num_forward_outputs:]]
        fill_values(forward, backward, dict(zip(saved, given, strict=True)))
        forward_stub, backward_stub = make_stubs(forward, backward, num_forward_outputs, self._hooks.state_value())
        forward_record, numbers = read_graph(forward)
        forward_record.inputs = mark_numbers(forward_record.inputs, placeholder_positions(forward), self._numbers)
        backward_record, _ = read_graph(backward, numbers)
        runnable = self._finish(Joint(forward_record, backward_record, num_forward_outputs, saved))
        forward_stub.meta[FORWARD_KEY] = Handle(runnable.forward)
        backward_stub.meta[BACKWARD_KEY] = Handle(_BackwardCall(self._hooks.keep_graph))
        return forward_stub, backward_stub

    def forward(self, graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """The compiled form of a forward stub."""
        return _boxed(compiled_forward(graph))

    def backward(self, graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """The compiled form of a backward stub."""
        return _boxed(graph.meta[BACKWARD_KEY].code)

    def inference(self, graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """The program of a graph that needs no gradient."""
        record, _ = read_graph(graph)
        record.inputs = mark_numbers(record.inputs, placeholder_positions(graph), self._numbers)
        return _boxed(self._finish(Joint(record)).infer)

    def _finish(self, joint: Joint) -> Any:
        with own_faults(f"program {self._title}"):
            assembled = assemble_program(self._title, joint, level="aten")
            payload = self._hooks.plan(assembled)
        names: dict[str, Any] = {}
        for name, source in assembled.kernels.items():
            record = joint.backward if source.backward and joint.backward is not None else joint.forward
            names[name] = record.module[source.name]
        return self._hooks.load(AtenArtifact(self._title, payload), names)


class _BackwardCall:
    """Runs backward on the state that forward left; the state knows the program."""

    def __init__(self, keep_graph: Callable[[], bool]) -> None:
        self._keep_graph = keep_graph

    def __call__(self, args: list[Any]) -> Any:
        state, tangents = take_state(args)
        return state.run_backward(tangents, keep=self._keep_graph())


def _boxed(function: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    """Mark a function as one that takes its arguments as a list and empties it."""

    def call(args: Sequence[Any]) -> Any:
        return function(args if isinstance(args, list) else list(args))

    setattr(call, "_boxed_call", True)  # noqa: B010 - a function has no such attribute for a type checker
    return call
