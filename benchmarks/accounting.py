"""Is the predicted peak the measured peak, to the byte, at shapes that the compiler has not seen?

Every architecture of `benchmarks.models`, training and inference, with one and two threads (CPU attention takes
a workspace per thread, so the number of threads is a named parameter of the formula). Each model is compiled at
one shape and then run at six others.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.backends import LOWTIDE, count_compilations, make_column, reset_compiler
from benchmarks.models import CASES, CONV_NET, LLAMA, Case, Shape, chosen
from benchmarks.prediction import StepPredictor
from benchmarks.reporting import Report, log_row
from benchmarks.steps import drop_gradients, inference_step, to_device, train_step
from benchmarks.threads import running_on
from lowtide import measure_peak


@dataclass(frozen=True, slots=True)
class Setting:
    """One compile: a case, training or inference, and a number of threads."""

    case: Case
    training: bool
    threads: int


def run(*, quick: bool = False, device: str = "cpu", only: str = "") -> Report:
    """Measure and predict every case; quick takes two models, training only, at three shapes.

    Args:
        quick: A short run.
        device: Where the models run.
        only: Leave out the cases whose name does not contain this.
    """
    rows = [row for setting in _settings(quick, only) for row in _rows(setting, quick, device)]
    return Report(
        title="Predicted and measured peaks, bytes above the start of a step",
        rows=rows,
        summary={
            "cases": len(rows),
            "mismatched": sum(not row["equal"] for row in rows),
            "architectures": len({row["model"] for row in rows}),
        },
        notes=["A step holds its outputs until it ends; inference holds them too."],
    )


def _settings(quick: bool, only: str) -> Iterator[Setting]:
    if quick:
        for case in chosen((LLAMA, CONV_NET), only):
            yield Setting(case, training=True, threads=torch.get_num_threads())
        return
    for threads in (1, 2):
        for case in chosen(CASES, only):
            for training in (True, False):
                yield Setting(case, training, threads)


def _rows(setting: Setting, quick: bool, device: str) -> Iterator[Mapping[str, Any]]:
    with running_on(setting.threads):
        for row in _measure_setting(setting, quick, device):
            log_row(row)
            yield row


def _measure_setting(setting: Setting, quick: bool, device: str) -> Iterator[Mapping[str, Any]]:
    case, training = setting.case, setting.training
    reset_compiler()
    model = case.make_model().to(device)
    model.train(training)
    column = make_column(LOWTIDE, model)
    step: Callable[..., object] = train_step if training else inference_step
    predictor = StepPredictor()
    for shape in (case.first, *_unseen(case, quick)):
        inputs = to_device(case.make(*shape), device)
        sizes = case.sizes(*shape)

        def run_step(inputs: Mapping[str, Any] = inputs) -> object:
            drop_gradients(model)
            return step(column.run, inputs)

        compiled = count_compilations()
        run_step()
        if count_compilations() > compiled:  # at the first shape, and at the first batch of 1
            predictor.watch(run_step, sizes)
        if shape == case.first:
            continue
        predicted = predictor.predict(sizes)
        drop_gradients(model)
        measured = measure_peak(lambda inputs=inputs: step(column.run, inputs), device=device)
        yield {
            "model": case.name,
            "mode": "training" if training else "inference",
            "threads": setting.threads,
            "shape": list(shape),
            "predicted_peak": predicted.peak_bytes,
            "measured_peak": measured.peak_bytes,
            "reserved_peak": measured.reserved_peak_bytes,
            "equal": predicted.peak_bytes == measured.peak_bytes,
            "compilations": count_compilations(),
        }


def _unseen(case: Case, quick: bool) -> Sequence[Shape]:
    """In quick mode leave out batch 1, which torch compiles once more."""
    return [shape for shape in case.unseen if shape[0] > 1][:3] if quick else case.unseen
