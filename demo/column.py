"""Train one column of the demo in a process of its own: `python -m demo.column NAME FOLDER`.

A process per column gives each the same start: no compiled code, no caches, no memory of another column.
The batches are read from the folder and the results written into it.
"""

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.backends import LOWTIDE, Column, count_compilations, make_column
from benchmarks.prediction import StepPredictor
from benchmarks.steps import drop_gradients, take_gradients, train_step
from demo.batches import Batch
from demo.settings import Settings, make_model
from lowtide import measure_peak

_LINES = 6  # progress lines per column


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


def run_column(name: str, batches: list[Batch], settings: Settings, folder: Path) -> ColumnResult:
    """Train on every batch, then measure memory and take the gradients at the largest one."""
    model = make_model(settings)
    initial = {key: value.clone() for key, value in model.state_dict().items()}
    column = make_column(name, model)
    steps = _train(column, model, batches, settings)

    in_order = sorted(batches, key=lambda batch: batch.input_ids.numel())
    predicted = None
    if name == LOWTIDE:
        predictor = StepPredictor()
        predictor.watch(lambda: train_step(column.run, in_order[0].inputs()), in_order[0].sizes())
        predicted = predictor.predict(in_order[-1].sizes())
    largest = in_order[-1].inputs()
    drop_gradients(model)
    measured = measure_peak(lambda: train_step(column.run, largest))

    model.load_state_dict(initial)
    gradients = [take_gradients(model, column.run, largest, settings.seed) for _ in range(2)]
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


def _train(column: Column, model: nn.Module, batches: list[Batch], settings: Settings) -> list[Step]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate)
    steps: list[Step] = []
    for number, batch in enumerate(batches, start=1):
        compiled = count_compilations()
        start = time.perf_counter()
        loss = train_step(column.run, batch.inputs())
        optimizer.step()
        optimizer.zero_grad()
        seconds = time.perf_counter() - start
        steps.append(Step(seconds, float(loss), batch.tokens, count_compilations() - compiled))
        if number == 1 or number % (len(batches) // _LINES) == 0:
            _show_progress(column.name, number, len(batches), batch, steps)
    return steps


def _show_progress(name: str, number: int, total: int, batch: Batch, steps: list[Step]) -> None:
    recent = steps[-(total // _LINES) :]
    mean = sum(step.loss for step in recent) / len(recent)
    filled = 20 * number // total
    shape = " x ".join(f"{size:>3}" for size in batch.shape)
    print(
        f"  {name:<14}[{'=' * filled}{' ' * (20 - filled)}] step {number:>3}/{total}  batch {shape}  "
        f"loss {mean:6.3f}  {steps[-1].seconds:6.2f} s",
        flush=True,
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
    result = run_column(name, load_batches(folder), settings, folder)
    (folder / f"{name}.json").write_text(json.dumps(asdict(result)), encoding="utf-8")


if __name__ == "__main__":
    main()
