"""Train one column of the demo in a process of its own: `python -m demo.column NAME FOLDER`.

A process per column gives each the same start: no compiled code, no caches, no memory of another column. Each line on
standard input asks for one step, and a line of JSON answers; so the columns take their steps in turn and a slow moment
of the machine hits all of them. At the end of the input the column is measured. The batches are read from the folder
and the results written into it.
"""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.backends import LOWTIDE, count_compilations, make_column
from benchmarks.prediction import StepPredictor
from benchmarks.steps import REFERENCE_RUNS, drop_gradients, take_gradients, train_step
from demo.batches import Batch
from demo.settings import Settings, make_model
from lowtide import measure_peak


@dataclass(frozen=True, slots=True)
class Step:
    """One training step: what it took and what came out."""

    seconds: float
    loss: float
    tokens: int
    compilations: int


@dataclass(frozen=True, slots=True)
class ColumnResult:
    """Everything that the table and the picture need of one column.

    Attributes:
        name: eager, torch.compile or lowtide.
        steps: The training steps in order.
        predicted_peak: Bytes predicted for the largest batch; None where nothing predicts.
        measured_peak: Bytes measured for the largest batch.
        predicted_footprints: Predicted bytes per statement at the largest batch.
        timeline: Measured bytes after each allocation event at the largest batch.
    """

    name: str
    steps: list[Step]
    predicted_peak: int | None
    measured_peak: int
    predicted_footprints: tuple[int, ...]
    timeline: tuple[int, ...]


def save_batches(batches: list[Batch], folder: Path) -> None:
    """Write the batches that every column trains on."""
    torch.save([(batch.input_ids, batch.attention_mask, batch.labels) for batch in batches], folder / "batches.pt")


def load_batches(folder: Path) -> list[Batch]:
    """Read the batches back."""
    return [Batch(*parts) for parts in torch.load(folder / "batches.pt", weights_only=True)]


class ColumnTraining:
    """One column: its model, and the steps that it has taken.

    Args:
        name: eager, torch.compile or lowtide.
        batches: What it trains on.
        settings: Of the demo.
    """

    def __init__(self, name: str, batches: list[Batch], settings: Settings) -> None:
        self._model = make_model(settings)
        self._initial = {key: value.clone() for key, value in self._model.state_dict().items()}
        self._column = make_column(name, self._model)
        self._batches = batches
        self._settings = settings

    def steps(self) -> Iterator[Step]:
        """Train on one batch after the other, whenever the next step is asked for."""
        optimizer = torch.optim.AdamW(self._model.parameters(), lr=self._settings.learning_rate)
        for batch in self._batches:
            compiled = count_compilations()
            start = time.perf_counter()
            loss = train_step(self._column.run, batch.inputs())
            optimizer.step()
            optimizer.zero_grad()
            seconds = time.perf_counter() - start
            yield Step(seconds, float(loss), batch.tokens, count_compilations() - compiled)

    def measure(self, steps: list[Step], folder: Path) -> ColumnResult:
        """Measure memory at the largest batch; save the gradients there, taken from the initial weights."""
        in_order = sorted(self._batches, key=lambda batch: batch.input_ids.numel())
        name, run = self._column.name, self._column.run
        predicted = None
        if name == LOWTIDE:
            predictor = StepPredictor()
            predictor.watch(lambda: train_step(run, in_order[0].inputs()), in_order[0].sizes())
            predicted = predictor.predict(in_order[-1].sizes())
        largest = in_order[-1].inputs()
        drop_gradients(self._model)
        measured = measure_peak(lambda: train_step(run, largest))

        self._model.load_state_dict(self._initial)
        gradients = [take_gradients(self._model, run, largest, self._settings.seed) for _ in range(REFERENCE_RUNS)]
        torch.save(gradients, folder / f"{name}.gradients.pt")
        assert measured.timeline is not None, "bug: a CPU measurement has a timeline"
        return ColumnResult(
            name=name,
            steps=steps,
            predicted_peak=predicted.peak_bytes if predicted else None,
            measured_peak=measured.peak_bytes,
            predicted_footprints=predicted.footprints if predicted else (),
            timeline=measured.timeline.totals,
        )


def read_result(folder: Path, name: str) -> ColumnResult:
    """Read what the process of a column wrote."""
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    found["steps"] = [Step(**step) for step in found["steps"]]
    return ColumnResult(**found)


def main() -> None:
    """Run the column named on the command line."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    settings = Settings(**json.loads((folder / "settings.json").read_text(encoding="utf-8")))
    training = ColumnTraining(name, load_batches(folder), settings)
    steps: list[Step] = []
    for _asked, step in zip(sys.stdin, training.steps(), strict=False):
        steps.append(step)
        print(json.dumps(asdict(step)), flush=True)
    result = training.measure(steps, folder)
    (folder / f"{name}.json").write_text(json.dumps(asdict(result)), encoding="utf-8")


if __name__ == "__main__":
    main()
