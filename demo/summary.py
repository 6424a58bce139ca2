"""From the results of the columns to the table and the figures of the demo."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.backends import LOWTIDE, TORCH_COMPILE
from benchmarks.reporting import Report
from benchmarks.steps import count_differing_gradients
from benchmarks.timing import Paired
from demo.column import ColumnResult


def summarize(results: Sequence[ColumnResult], folder: Path, shape: tuple[int, int]) -> Report:
    """Make the one table: a row per column, and the figures that the benchmarks report too.

    Keys of the summary are the benchmarks', so that one reader serves both. The demo is one model: what is a maximum
    over models there is its one figure here. `cases` counts the columns that predict a peak (lowtide's), `mismatched`
    those whose prediction is not what was measured.
    """
    steady = _steady_steps(results)
    rows = [_row(result, steady) for result in results]
    by_name = {result.name: result for result in results}
    row_of = {row["column"]: row for row in rows}
    ours, peer = by_name[LOWTIDE], by_name[TORCH_COMPILE]
    paired = Paired(*([result.steps[step].seconds for step in steady] for result in (peer, ours)))
    expected = _load_gradients(folder, TORCH_COMPILE)
    found = _load_gradients(folder, LOWTIDE)[0]
    summary = {
        "cases": sum(result.predicted_peak is not None for result in results),
        "mismatched": sum(result.predicted_peak not in (None, result.measured_peak) for result in results),
        "architectures": 1,
        "step_time_ratio_max": paired.ratio,
        "step_time_quartiles": [round(ratio, 3) for ratio in paired.spread],
        "compile_time_ratio_max": row_of[LOWTIDE]["compile_seconds"] / row_of[TORCH_COMPILE]["compile_seconds"],
        "peak_ratio_max": ours.measured_peak / peer.measured_peak,
        "extra_compilations": row_of[LOWTIDE]["compilations"] - row_of[TORCH_COMPILE]["compilations"],
        "gradients_differ": count_differing_gradients(expected, found),
    }
    return Report(
        title=f"One model, the same batches; peaks at the largest batch, {shape[0]} x {shape[1]} tokens",
        rows=rows,
        summary=summary,
        notes=[
            "Peaks are bytes of tensors above the start of a step: activations, gradients and workspaces.",
            "The columns took their steps in turn; the ratio of step times is the median over the pairs.",
            "Compile seconds are what the compiling steps took beyond their run time, from cold caches.",
        ],
    )


def _steady_steps(results: Sequence[ColumnResult]) -> list[int]:
    """Number the steps in which no column compiled, leaving out the first, which warms up."""
    count = len(results[0].steps)
    return [step for step in range(1, count) if not any(result.steps[step].compilations for result in results)]


def _row(result: ColumnResult, steady: Sequence[int]) -> Mapping[str, Any]:
    rate = sum(result.steps[step].tokens for step in steady) / sum(result.steps[step].seconds for step in steady)
    compiling = [step for step in result.steps if step.compilations]
    return {
        "column": result.name,
        "predicted_peak": result.predicted_peak,
        "measured_peak": result.measured_peak,
        "tokens_per_second": round(rate, 1),
        "compile_seconds": round(sum(step.seconds - step.tokens / rate for step in compiling), 2),
        "compilations": sum(step.compilations for step in compiling),
        "first_loss": round(result.steps[0].loss, 4),
        "last_loss": round(result.steps[-1].loss, 4),
    }


def _load_gradients(folder: Path, name: str) -> list[dict[str, Tensor]]:
    """Load what `demo.column` saved: the gradients of some runs at the largest batch."""
    return torch.load(folder / f"{name}.gradients.pt", weights_only=True)
