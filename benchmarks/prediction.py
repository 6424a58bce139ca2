"""What lowtide says before a step runs: the one place that knows its prediction API."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PredictedStep:
    """The memory that lowtide predicts for one step, in bytes above the start.

    Attributes:
        peak_bytes: Predicted peak.
        footprints: Predicted footprint of each statement, in the order they run; empty where not given.
    """

    peak_bytes: int
    footprints: tuple[int, ...] = ()


def predict_step(compiled: Callable[..., Any], inputs: Mapping[str, Any], *, training: bool) -> PredictedStep | None:
    """Ask lowtide for the memory of one step on `inputs`; None where it has no answer.

    Args:
        compiled: The callable that torch.compile returned for backend "lowtide", already compiled.
        inputs: Keyword arguments of the call. Only their shapes matter.
        training: Whether a backward pass follows the forward pass.
    """
    del compiled, inputs, training
    return None
