"""CUDA programs on a machine without a GPU: what would a GPU run, and how much memory would it take?

    program = lower_for_cuda(model, input_ids=ids, labels=ids)     # a training step for an H100
    memory_profile(program).peak_at({"s0": 8, "s1": 512})

Needs the package `triton`, which prints kernels without a GPU. Nothing is compiled or run, so a program can be
captured, accounted for and tested, and its limits are those of docs/cuda.md.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from lowtide.ir import Program
from lowtide.lower.inductor.cards import CARDS, Card
from lowtide.lower.inductor.lower_elsewhere import (
    NothingCapturedError,
    UntraceableCallError,
    lower_on_pretended_device,
)
from lowtide.lower.inductor.pretend import TritonMissingError, UnknownCardError, pretended_device

__all__ = [
    "CARDS",
    "Card",
    "NothingCapturedError",
    "TritonMissingError",
    "UnknownCardError",
    "UntraceableCallError",
    "lower_for_cuda",
    "pretend_cuda",
]


@contextlib.contextmanager
def pretend_cuda(card: Card | str = "H100") -> Iterator[Card]:
    """Let Inductor lower for CUDA device 0 inside the context, though there is none.

    Args:
        card: A name in `CARDS`, or a `Card` with figures of your own.

    Raises:
        TritonMissingError: If the package `triton` is not installed.
        UnknownCardError: If there is no card of that name.

    Guarantee: everything that is changed is put back at the end.
    Cost: a fraction of a second; a second or two the first time.
    """
    with pretended_device(card) as figures:
        yield figures


def lower_for_cuda(model: Callable[..., Any], /, *args: Any, card: Card | str = "H100", **kwargs: Any) -> Program:
    """Capture one call of a model with dynamic shapes and lower it for a GPU that is not there.

    Args:
        model: A module or function on CPU, its parameters too. Its whole call must be one graph.
        args: Positional arguments of the call, on CPU.
        card: A name in `CARDS`, or a `Card` with figures of your own.
        kwargs: Keyword arguments of the call, on CPU.

    Returns:
        A training step if the outputs need gradients, else an inference step: what the same call on the card would
        run, with Triton kernels, and buffers on `cuda:0`. Sizes are exact, but for workspace that is named and
        unknown; the assumptions say what may differ on a real device.

    Raises:
        TritonMissingError: If the package `triton` is not installed.
        UnknownCardError: If there is no card of that name.
        NothingCapturedError: If the call computes nothing.
        UntraceableCallError: If the call is not one graph.
        UnsupportedGraphError, UnboundedSizeError: If the graph cannot be accounted for.

    Cost: capture and lowering as torch.compile does them, without compiling kernels; seconds for small models.
    """
    program, _ = lower_on_pretended_device(model, args, kwargs, card=card)
    return program
