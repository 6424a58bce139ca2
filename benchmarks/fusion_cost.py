"""What keeping loops apart saves and costs: lowtide beside itself with every fusion that Inductor would make.

Both columns are lowtide; in the second no pair of loops is refused. Peaks are measured, steps are timed in turn.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any
from unittest.mock import patch

import torch

import lowtide
from benchmarks.backends import LOWTIDE, make_column, reset_compiler
from benchmarks.models import Case, chosen
from benchmarks.parity_cases import PARITY_CASES, QUICK_CASES
from benchmarks.peers import Peer
from benchmarks.reporting import Report, log_row
from benchmarks.steps import to_device
from benchmarks.timing import time_paired
from lowtide.lower.inductor.fusion_limits import FusionLimits

_SECONDS = 20


def run(*, quick: bool = False, device: str = "cpu", only: str = "") -> Report:
    """Measure the large cases of `parity`; quick takes one, for a few steps.

    Args:
        quick: A short run.
        device: Where the models run.
        only: Leave out the cases whose name does not contain this.
    """
    rows: list[dict[str, Any]] = []
    for case in chosen(QUICK_CASES if quick else PARITY_CASES, only):
        for row in _rows(case, device, seconds=2 if quick else _SECONDS):
            log_row(row)
            rows.append(row)
    return Report(
        title="Loops kept apart, beside all of them fused",
        rows=rows,
        summary={
            "loops_kept_apart": {row["model"]: row["kept_apart"] for row in rows},
            "kept_apart_peak_ratio_max": max((row["peak_ratio"] for row in rows), default=None),
            "kept_apart_step_ratio_max": max((row["step_ratio"] for row in rows), default=None),
        },
        notes=["peak_ratio and step_ratio: loops kept apart / all fused; step_low, step_high: quartiles"],
    )


def _rows(case: Case, device: str, *, seconds: float) -> Iterator[dict[str, Any]]:
    reset_compiler()
    model = case.make_model().to(device)
    # No graph may come from a cache: its keys know nothing of what is patched.
    with patch.object(torch.compiler.config, "force_disable_caches", True):
        apart = _compiled(case, copy.deepcopy(model), device)
        with patch.object(FusionLimits, "refuses", return_value=False):
            fused = _compiled(case, model, device)
    kept_apart = sum(program.kept_apart for program in lowtide.explain(apart.column.run).programs)
    for shape in case.unseen:
        inputs = to_device(case.make(*shape), device)
        # A graph compiled now would be the same in both columns.
        for peer in (fused, apart):
            peer.step_counting(inputs)
            assert peer.compilations == [0], "bug: one program is not enough for the shapes compared"
            peer.compilations.clear()
        timed = time_paired(
            lambda given=inputs: fused.step(given),
            lambda given=inputs: apart.step(given),
            rounds=5,
            seconds=seconds,
            device=device,
        )
        ours, theirs = apart.measure(inputs, device), fused.measure(inputs, device)
        low, high = timed.spread
        yield {
            "model": case.name,
            "shape": list(shape),
            "kept_apart": kept_apart,
            "fused_peak": theirs,
            "apart_peak": ours,
            "peak_ratio": ours / theirs,
            "step_ratio": timed.ratio,
            "step_low": low,
            "step_high": high,
        }


def _compiled(case: Case, model: torch.nn.Module, device: str) -> Peer:
    """A peer that has compiled its graphs, so that what is patched now stays in them."""
    peer = Peer(model, make_column(LOWTIDE, model))
    inputs: Mapping[str, Any] = to_device(case.make(*case.first), device)
    peer.step(inputs)
    return peer
