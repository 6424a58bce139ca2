"""What lowtide says before a step runs: the one place that knows its prediction API."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import lowtide


@dataclass(frozen=True, slots=True)
class PredictedStep:
    """The memory that lowtide predicts for one step, in bytes above the start.

    Attributes:
        peak_bytes: Predicted peak.
        footprints: Predicted bytes during each statement, in the order in which they run.
    """

    peak_bytes: int
    footprints: tuple[int, ...]


class StepPredictor:
    """Predicts the steps of one compiled model, after watching one of them.

    Watching tells the order of the programs' calls and what is held between them; no size is taken from it.
    """

    def __init__(self) -> None:
        self._watched: dict[bool, lowtide.Step] = {}

    def watch(self, step: Callable[[], object], sizes: Mapping[str, int]) -> None:
        """Run `step` and watch it; to be done once for each set of programs that torch has compiled.

        Args:
            step: Runs the compiled model, which compiles nothing any more.
            sizes: Its named dimensions. torch makes programs of their own for batches of one.
        """
        with lowtide.record_step() as watched:
            step()
        self._watched[sizes["batch"] == 1] = watched

    def predict(self, sizes: Mapping[str, int]) -> PredictedStep:
        """Predict the memory of a step at other sizes, from the formulas of the programs alone."""
        watched = self._watched[sizes["batch"] == 1]
        return PredictedStep(watched.predict(sizes).bytes, watched.timeline(sizes))
