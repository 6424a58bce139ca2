"""Lowers a model for a CUDA device that is not there: captured on CPU, moved in metadata, lowered as ever.

Stages: dynamo and AOTAutograd trace the model on CPU; torch's joint-graph passes run; the graph moves to the
pretended device; from there on partition, Inductor and assembly are those of the CPU. The capture ends when the
program is there, so nothing is compiled or run.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch._functorch.config as functorch_config
import torch.fx as fx
from torch._dynamo.exc import Unsupported
from torch._functorch import partitioners
from torch._inductor import sizevars
from torch._inductor.compile_fx import compile_fx

from lowtide.errors import LowtideError
from lowtide.ir import Program
from lowtide.lower.inductor.cards import Card
from lowtide.lower.inductor.lowering import lower_graph
from lowtide.lower.inductor.partition import LowtidePartitioner
from lowtide.lower.inductor.pretend import DEVICE, check_pretence, pretended_device
from lowtide.lower.inductor.retarget import retarget_graph
from lowtide.lower.joint import (
    Joint,
    assemble_program,
    canonical_hints,
    compile_title,
    mark_numbers,
    numbers_passed_as_tensors,
    placeholder_positions,
    placeholder_values,
    shape_env_of,
)

ASSUMPTION = (
    "lowered for a pretended {card}: captured on CPU, devices changed afterwards; torch's choice of attention and "
    "its padding of matrix products on a real device may differ"
)


class NothingCapturedError(LowtideError):
    """torch.compile ended without handing over a graph."""


class UntraceableCallError(LowtideError):
    """torch.compile cannot trace a call as one graph."""


class _Captured(BaseException):
    def __init__(self, joint: Joint, title: str) -> None:
        super().__init__()  # no arguments: they would be printed with every traceback
        self.joint = joint
        self.title = title


class _MovingPartitioner(LowtidePartitioner):
    """Moves the joint graph to the pretended device before it is partitioned and lowered."""

    def __init__(self, card: Card | str, **kwargs: Any) -> None:
        super().__init__("lowtide pretended device", **kwargs)
        self._card = card

    def __call__(
        self, gm: fx.GraphModule, joint_inputs: Sequence[object], **kwargs: Any
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        retarget_graph(gm, DEVICE)
        with pretended_device(self._card):
            return super().__call__(gm, placeholder_values(gm), **kwargs)


def lower_on_pretended_device(
    model: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], *, card: Card | str
) -> tuple[Program, Joint]:
    """Capture one call of a model and lower it for a card.

    Args:
        model: A module or function on CPU. If its outputs need gradients the program is a training step.
        args: Positional arguments of the call, on CPU.
        kwargs: Keyword arguments of the call, on CPU.
        card: A name in `CARDS`, or figures.

    Returns:
        The program, and the lowered graphs that it was made of, whose `source` has the kernels.

    Raises:
        TritonMissingError: If the package `triton` is not installed.
        UnknownCardError: If there is no card of that name.
        NothingCapturedError: If the call has nothing to compile.
        UntraceableCallError: If the call is not one graph.
        UnsupportedGraphError, UnboundedSizeError: If the graph cannot be accounted for.

    Cost: what torch.compile takes for capture and lowering, without compiling kernels.
    """
    check_pretence(card)
    compiled = torch.compile(model, backend=_Backend(card), dynamic=True, fullgraph=True)
    try:
        # Caches know nothing of the device that is pretended.
        with functorch_config.patch(enable_autograd_cache=False):
            compiled(*args, **kwargs)
    except _Captured as end:
        captured = end
    except Unsupported as error:
        raise UntraceableCallError(
            "The call cannot be traced as one graph.",
            found=str(error).partition("\n")[0],
            where=f"{type(model).__name__}, in lower_for_cuda",
            fix="remove the graph break, or lower the parts of the model one by one.",
        ) from error
    except Exception as error:
        own = _own_error(error)
        if own is None:
            raise
        raise own from error
    else:
        raise NothingCapturedError(
            "The call has nothing to compile.",
            found=f"torch.compile ran {type(model).__name__} without handing over a graph",
            where="lower_for_cuda",
            fix="pass a model that computes with tensors.",
        )
    program = assemble_program(captured.title, captured.joint).program
    return _with_assumption(program, card), captured.joint


class _Backend:
    """The backend of the capture: an object of its own for each, so that dynamo never reuses one."""

    def __init__(self, card: Card | str) -> None:
        self._card = card

    def __call__(self, gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        title, numbers = compile_title(), numbers_passed_as_tensors(gm)

        def end(joint: Joint) -> tuple[Any, Any]:
            raise _Captured(joint, title)

        def inner_compile(graph: fx.GraphModule, inputs: Sequence[Any], **kwargs: Any) -> Any:
            retarget_graph(graph, DEVICE)
            positions = placeholder_positions(graph)
            with pretended_device(self._card), canonical_hints(shape_env_of(graph), (partitioners, sizevars)):
                record = lower_graph(
                    graph,
                    placeholder_values(graph),
                    static_input_idxs=kwargs.get("static_input_idxs", ()),
                    is_inference=True,
                )
            record.inputs = mark_numbers(record.inputs, positions, numbers)
            raise _Captured(Joint(record), title)

        partitioner = _MovingPartitioner(
            self._card,
            num_model_inputs=len(example_inputs),
            numbers=numbers,
            compile_joint=end,
            state_value=_no_state,
        )
        with functorch_config.patch(bundled_autograd_cache=False, force_non_lazy_backward_lowering=True):
            return compile_fx(
                gm, example_inputs, inner_compile=inner_compile, config_patches={"custom_partitioner_fn": partitioner}
            )


def _own_error(error: BaseException) -> LowtideError | None:
    """The error of ours that torch wrapped, if there is one."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, LowtideError):
        seen = getattr(seen, "inner_exception", None) or seen.__cause__ or seen.__context__
    return seen


def _no_state() -> None:
    return None


def _with_assumption(program: Program, card: Card | str) -> Program:
    name = card if isinstance(card, str) else card.name
    return dataclasses.replace(program, assumptions=(*program.assumptions, ASSUMPTION.format(card=name)))
