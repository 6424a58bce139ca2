"""Does lowtide cost anything beside torch.compile(dynamic=True): time, compile time, memory, compilations, gradients?

Steps are timed in one process, in turn, on two copies of the same model. Compile times are taken in processes of
their own: with an empty cache folder (cold), and again with what the first process left in it (warm).
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from benchmarks.backends import LOWTIDE, TORCH_COMPILE
from benchmarks.models import CASES, Case, Shape, chosen
from benchmarks.parity_cases import PARITY_CASES, QUICK_CASES
from benchmarks.peers import SEED, Pair, make_pair
from benchmarks.reporting import ROOT, Report, log_row
from benchmarks.steps import take_gradients
from benchmarks.threads import running_on
from benchmarks.timing import time_paired

_PEERS = (TORCH_COMPILE, LOWTIDE)
_NO_RATIOS: Mapping[str, Any] = {"cold_compile_ratio": None, "warm_compile_ratio": None}


def run(*, quick: bool = False, device: str = "cpu", only: str = "") -> Report:
    """Compare every case; quick takes one small model and one compilation of each kind.

    Args:
        quick: A short run.
        device: Where the models run.
        only: Leave out the cases whose name does not contain this.
    """
    rows: list[Mapping[str, Any]] = []
    failures: list[str] = []
    for case in chosen(QUICK_CASES if quick else PARITY_CASES, only):
        shapes = case.unseen[:1] if quick else case.unseen
        compared = list(_compare_runs(case, shapes, device, failures, seconds=4.0 if quick else 20.0))
        compile_ratios = _compare_compile_times(case, repeats=1 if quick else 3)
        rows += [{**row, **(compile_ratios if index == 0 else _NO_RATIOS)} for index, row in enumerate(compared)]
    with running_on(threads=1):
        for case in chosen(() if quick else CASES, only):
            rows += [{**row, **_NO_RATIOS} for row in _compare_runs(case, case.unseen, device, failures, seconds=None)]
    return Report(
        title="lowtide beside torch.compile(dynamic=True), training",
        rows=rows,
        summary={
            "step_time_ratio_max": _largest(rows, "step_time_ratio"),
            "compile_time_ratio_max": _largest(rows, "cold_compile_ratio", "warm_compile_ratio"),
            "peak_ratio_max": _largest(rows, "peak_ratio"),
            "extra_compilations": sum(row["extra_compilations"] for row in rows),
            "gradients_differ": sum(row["gradients_differ"] for row in rows),
            "gradients_off_eager": sum(row["gradients_off_eager"] or 0 for row in rows),
            "peer_failures": len(failures),
        },
        notes=[
            "Ratios are lowtide / torch.compile; times are medians of pairs run in turn, with their quartiles.",
            "Gradients are compared bit by bit, except where torch.compile differs from itself in the timed cases.",
            "The cases without times run on one thread, where every sum has one order and no exception is needed.",
            *failures,
        ],
    )


def _compare_runs(
    case: Case, shapes: Sequence[Shape], device: str, failures: list[str], *, seconds: float | None
) -> Iterator[Mapping[str, Any]]:
    """Compare both peers at each shape; time them unless `seconds` is None."""
    pair = make_pair(case, device)
    for shape, inputs in pair.batches(shapes, device, failures):
        row = _compare_at(pair, shape, inputs, device, seconds)
        log_row(row)
        yield row


def _compare_at(
    pair: Pair, shape: Shape, inputs: Mapping[str, Any], device: str, seconds: float | None
) -> Mapping[str, Any]:
    case, reference, ours = pair.case, pair.reference, pair.ours
    peaks = pair.compare_peaks(inputs, device)
    found = ours.gradients(inputs)
    in_eager = None if case.is_random else take_gradients(pair.model, pair.model, inputs, SEED)
    differing = pair.count_differing(inputs, found)
    paired = (
        time_paired(lambda: reference.step(inputs), lambda: ours.step(inputs), rounds=5, seconds=seconds, device=device)
        if seconds is not None
        else None
    )
    return {
        "model": case.name,
        "shape": list(shape),
        "torch_compile_ms": 1000 * statistics.median(paired.first) if paired else None,
        "lowtide_ms": 1000 * statistics.median(paired.second) if paired else None,
        "step_time_ratio": paired.ratio if paired else None,
        "step_time_quartiles": [round(ratio, 3) for ratio in paired.spread] if paired else None,
        **peaks,
        "extra_compilations": ours.compilations[-1] - reference.compilations[-1],
        "gradients_differ": differing,
        "gradients_off_eager": None if in_eager is None else _count_off(in_eager, found),
    }


def _count_off(expected: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> int:
    """Count the parameters whose gradient is off by more than rounding explains.

    Allowed: 1e-3 of the largest entry of the expected gradient, and the absolute 1e-5 that `torch.testing` allows
    float32, for those that would be zero in exact arithmetic (a bias before batch norm).
    """
    return sum(
        name not in found or not bool((grad - found[name]).abs().max() <= 1e-3 * grad.abs().max() + 1e-5)
        for name, grad in expected.items()
    )


def _compare_compile_times(case: Case, repeats: int) -> Mapping[str, Any]:
    """Compile in fresh processes, the peers in turn, and give the median ratios."""
    ratios: dict[str, list[float]] = {"cold_compile_ratio": [], "warm_compile_ratio": []}
    for _ in range(repeats):
        seconds = {name: _compile_cold_and_warm(name, case) for name in _PEERS}
        for place, key in enumerate(ratios):
            ratios[key].append(seconds[LOWTIDE][place] / seconds[TORCH_COMPILE][place])
    return {key: statistics.median(found) for key, found in ratios.items()}


def _compile_cold_and_warm(column: str, case: Case) -> tuple[float, float]:
    with tempfile.TemporaryDirectory(prefix="lowtide-bench-") as folder:
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(Path(folder) / "cache")}
        command = [sys.executable, "-m", "benchmarks.compile_time", column, case.name]
        found = []
        for _ in range(2):
            done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
            found.append(json.loads(done.stdout.splitlines()[-1])["seconds"])
    return (found[0], found[1])


def _largest(rows: Sequence[Mapping[str, Any]], *keys: str) -> float | None:
    found = [row[key] for row in rows for key in keys if row[key] is not None]
    return max(found) if found else None
