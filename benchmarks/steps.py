"""One step of a model, written as users write it, and the gradients it leaves."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

Gradients = Mapping[str, Tensor]  # by parameter name


def train_step(run: Callable[..., Any], inputs: Mapping[str, Any]) -> Tensor:
    """Run forward and backward; the outputs are held by the caller until both are done. Returns the loss."""
    outputs = run(**inputs)
    loss = outputs if isinstance(outputs, Tensor) else outputs.loss
    loss.backward()
    return loss.detach()


def inference_step(run: Callable[..., Any], inputs: Mapping[str, Any]) -> object:
    """Run forward without gradients and return the outputs."""
    with torch.no_grad():
        return run(**inputs)


def to_device(inputs: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Move the tensors among the arguments of a call."""
    return {name: value.to(device) if isinstance(value, Tensor) else value for name, value in inputs.items()}


def drop_gradients(model: nn.Module) -> None:
    """Free the gradients, so that the next step makes its own."""
    for parameter in model.parameters():
        parameter.grad = None


def take_gradients(
    model: nn.Module, run: Callable[..., Any], inputs: Mapping[str, Any], seed: int
) -> dict[str, Tensor]:
    """Run one step from a fixed random state and return its gradients by parameter name."""
    drop_gradients(model)
    torch.manual_seed(seed)
    train_step(run, inputs)
    found = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    drop_gradients(model)
    return found


REFERENCE_RUNS = 5
"""How often a reference runs, so that what is not deterministic in it shows."""


def count_differing_gradients(references: Sequence[Gradients], ours: Gradients) -> int:
    """Count the parameters whose gradients are not those of the reference.

    Bitwise, except where the reference differs from itself between its runs (atomic additions in the embedding
    gradient on CPU with several threads): there a difference of up to eight times that size passes.

    Args:
        references: Gradients of some runs of the reference, same inputs and random state.
        ours: The gradients to judge.
    """
    reference, *others = references
    if reference.keys() != ours.keys():
        return len(reference.keys() ^ ours.keys())
    differing = 0
    for name, expected in reference.items():
        noise = max(((expected - again[name]).abs().max() for again in others), default=torch.zeros(()))
        difference = (expected - ours[name]).abs().max()
        # Not `difference > ...`, so that a NaN counts as different.
        if not torch.equal(expected, ours[name]) and not bool(difference <= 8 * noise):
            differing += 1
    return differing
