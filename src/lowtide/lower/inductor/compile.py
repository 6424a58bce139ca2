"""Runs torch's own compile pipeline with lowtide in the places where a program is partitioned and lowered.

`compile_fx` keeps doing what it does for torch.compile: pre-grad passes, AOTAutograd with its caches, joint
graph passes. The partition function and the inner compiler are ours.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
import torch._functorch.config as functorch_config
from torch._functorch import partitioners
from torch._inductor import sizevars
from torch._inductor.compile_fx import compile_fx, compile_fx_inner
from torch._inductor.exc import InductorError
from torch.utils._sympy.printers import PythonPrinter

from lowtide.errors import LowtideError, own_faults
from lowtide.lower.inductor.lowering import lower_graph
from lowtide.lower.inductor.output_code import Artifact, BackwardCode, ForwardCode, pick_kernels
from lowtide.lower.inductor.partition import LowtidePartitioner
from lowtide.lower.joint import (
    BACKWARD_KEY,
    FORWARD_KEY,
    Assembled,
    GraphRecord,
    Hooks,
    Joint,
    assemble_program,
    canonical_hints,
    compile_title,
    compiled_forward,
    mark_numbers,
    numbers_passed_as_tensors,
    placeholder_positions,
    shape_env_of,
)


def compile_with_inductor(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    hooks: Hooks,
    *,
    config_patches: Mapping[str, Any],
) -> Callable[..., Any]:
    """Compile a graph captured by dynamo into lowtide programs.

    Args:
        gm: The graph.
        example_inputs: Its inputs.
        hooks: The runtime's part.
        config_patches: Inductor options, by name.

    Returns:
        The callable for dynamo.

    Raises:
        UnsupportedGraphError, UnboundedSizeError: If the graph cannot be accounted for.

    Cost: what torch.compile takes, plus time linear in the program.
    """
    title = compile_title()
    numbers = numbers_passed_as_tensors(gm)

    def finish(joint: Joint) -> tuple[ForwardCode, BackwardCode | None]:
        with own_faults(f"program {title}"):
            assembled = assemble_program(title, joint)
            payload = hooks.plan(assembled)
        artifact = _artifact(title, joint, assembled, payload)
        kernels = pick_kernels(assembled.kernels, joint.forward.module, joint.backward.module if joint.backward else {})
        forward = ForwardCode(artifact, joint.backward is None, hooks.load, hooks.load(artifact, kernels))
        return forward, None if joint.backward is None else BackwardCode(hooks.keep_graph)

    partitioner = LowtidePartitioner(
        hooks.identity,
        num_model_inputs=len(example_inputs),
        numbers=numbers,
        compile_joint=finish,
        state_value=hooks.state_value,
    )

    def inner_compile(graph: torch.fx.GraphModule, inputs: Sequence[Any], **kwargs: Any) -> Any:
        if FORWARD_KEY in graph.meta:
            code = compiled_forward(graph)
        elif BACKWARD_KEY in graph.meta:
            return graph.meta[BACKWARD_KEY].code
        elif kwargs.get("is_inference"):
            positions = placeholder_positions(graph)
            with canonical_hints(shape_env_of(graph), (partitioners, sizevars)):
                record = lower_graph(
                    graph, inputs, static_input_idxs=kwargs.get("static_input_idxs", ()), is_inference=True
                )
            record.inputs = mark_numbers(record.inputs, positions, numbers)
            # Inductor has told AOTAutograd the strides of the outputs while it lowered.
            return finish(Joint(record))[0]
        else:
            return compile_fx_inner(graph, inputs, **kwargs)
        code.post_compile(inputs, None, kwargs)
        return code

    patches = {**config_patches, "custom_partitioner_fn": partitioner}
    with functorch_config.patch(bundled_autograd_cache=True, force_non_lazy_backward_lowering=True):
        try:
            compiled: Any = compile_fx(gm, example_inputs, inner_compile=inner_compile, config_patches=patches)
        except InductorError as error:
            raise _own_error(error) from None
    return compiled


def _own_error(error: Exception) -> Exception:
    """The error of lowtide that Inductor wrapped into one of its own; the error itself if there is none."""
    inner: Any = error
    while isinstance(inner, InductorError):
        inner = inner.inner_exception
    return inner if isinstance(inner, LowtideError) else error


def _artifact(title: str, joint: Joint, assembled: Assembled, payload: Any) -> Artifact:
    backward = joint.backward
    count = joint.num_forward_outputs
    strides = joint.forward.output_strides if count is None else [*joint.forward.output_strides[:count], None, None]
    printer = PythonPrinter()
    return Artifact(
        title=title,
        forward_source=joint.forward.source,
        backward_source=None if backward is None else backward.source,
        forward_constants=_constants(joint.forward),
        backward_constants={} if backward is None else _constants(backward),
        kernels=assembled.kernels,
        payload=payload,
        output_strides=[None if s is None else tuple(_text(printer, e) for e in s) for s in strides],
    )


def _text(printer: PythonPrinter, value: sympy.Expr) -> str:
    return str(printer.doprint(value))


def _constants(record: GraphRecord) -> dict[str, Any]:
    return {name: record.module[name] for name in record.constants}
