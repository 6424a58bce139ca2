"""Measured peaks of training: lowtide beside torch.compile, and beside lowtide compiled for one shape alone.

The static program has kernels of its own, made for its shape: what it saves against the one program for every shape is
partly lowering, partly order. The order's part is found by ordering the dynamic program for exact sizes.
"""

import copy
import statistics
from collections.abc import Iterator, Mapping
from typing import Any

import lowtide
from benchmarks.backends import LOWTIDE, LOWTIDE_STATIC, TORCH_COMPILE, make_column, reset_compiler
from benchmarks.models import CASES, CONV_NET, Case, Shape, chosen
from benchmarks.reporting import Report, log_row
from benchmarks.steps import (
    REFERENCE_RUNS,
    count_differing_gradients,
    drop_gradients,
    take_gradients,
    to_device,
    train_step,
)
from lowtide import measure_peak
from lowtide.schedule import make_plans, scalar_tangents
from lowtide.schedule.choice import orders_at
from lowtide.schedule.numbers import at_valuation
from lowtide.schedule.problem import order_problem

_SEED = 7
# Compiling once more for each shape is most of the time.
_STATIC_SHAPES = 2


def run(*, quick: bool = False, device: str = "cpu", only: str = "") -> Report:
    """Measure every case; quick takes one, at two shapes.

    Args:
        quick: Under a minute.
        device: Where the models run.
        only: Leave out the cases whose name does not contain this.
    """
    rows: list[Mapping[str, Any]] = []
    for case in chosen((CONV_NET,) if quick else CASES, only):
        for row in _rows(case, case.unseen[:2] if quick else case.unseen, 0 if quick else _STATIC_SHAPES, device):
            log_row(row)
            rows.append(row)
    ratios = [row["peak_ratio"] for row in rows]
    gaps = [row["static_gap"] for row in rows if row["static_gap"] is not None]
    below = {row["model"] for row in rows} - {row["model"] for row in rows if row["peak_ratio"] >= 1}
    return Report(
        title="Measured peaks of training, bytes",
        rows=rows,
        summary={
            "peak_ratio_max": max(ratios, default=None),
            "peak_ratio_median": statistics.median(ratios) if ratios else None,
            "models": len({row["model"] for row in rows}),
            "models_below_torch_compile": len(below),
            "static_gap_max": max(gaps, default=None),
            "static_gap_median": statistics.median(gaps) if gaps else None,
            "results_differ": sum(row["gradients_differ"] for row in rows),
        },
        notes=[
            "peak_ratio: lowtide / torch.compile(dynamic=True); models_below_torch_compile: at every shape",
            "static_gap: above lowtide compiled for the shape alone; order_gap: what exact sizes would save by order",
        ],
    )


def _rows(case: Case, shapes: tuple[Shape, ...], static: int, device: str) -> Iterator[Mapping[str, Any]]:
    reset_compiler()
    model = case.make_model().to(device)
    peers: dict[str, tuple[Any, Any]] = {}
    for name in (TORCH_COMPILE, LOWTIDE):
        own = copy.deepcopy(model)
        peers[name] = (own, make_column(name, own).run)
    for place, shape in enumerate((case.first, *shapes)):
        inputs = to_device(case.make(*shape), device)
        try:
            peaks = {name: _measure(own, compiled, inputs, device) for name, (own, compiled) in peers.items()}
        except (RuntimeError, AssertionError) as error:
            if not _fails_alone(peers[TORCH_COMPILE], inputs):
                raise
            log_row({"model": case.name, "shape": list(shape), "torch.compile fails": str(error).splitlines()[0]})
            continue
        if shape == case.first:
            continue
        (theirs, reference), (ours, run_ours) = peers[TORCH_COMPILE], peers[LOWTIDE]
        expected = [take_gradients(theirs, reference, inputs, _SEED) for _ in range(REFERENCE_RUNS)]
        static_peak = _static_peak(case, shape, device) if place <= static else None
        yield {
            "model": case.name,
            "shape": list(shape),
            "torch_compile_peak": peaks[TORCH_COMPILE],
            "lowtide_peak": peaks[LOWTIDE],
            "peak_ratio": peaks[LOWTIDE] / peaks[TORCH_COMPILE],
            "static_peak": static_peak,
            "static_gap": None if static_peak is None else peaks[LOWTIDE] / static_peak - 1,
            "order_gap": None if static_peak is None else _order_gap(run_ours, inputs),
            "gradients_differ": count_differing_gradients(expected, take_gradients(ours, run_ours, inputs, _SEED)),
        }


def _measure(model: Any, run_model: Any, inputs: Mapping[str, Any], device: str) -> int:
    """Measure a step that has run once at its sizes before."""
    train_step(run_model, inputs)
    drop_gradients(model)
    peak = measure_peak(lambda: train_step(run_model, inputs), device=device).peak_bytes
    drop_gradients(model)
    return peak


def _fails_alone(peer: tuple[Any, Any], inputs: Mapping[str, Any]) -> bool:
    """Whether torch.compile itself fails on these inputs; lowtide must run wherever it does."""
    model, run_model = peer
    try:
        train_step(run_model, inputs)
    except (RuntimeError, AssertionError):
        return True
    finally:
        drop_gradients(model)
    return False


def _static_peak(case: Case, shape: Shape, device: str) -> int:
    model = case.make_model().to(device)
    return _measure(model, make_column(LOWTIDE_STATIC, model).run, to_device(case.make(*shape), device), device)


def _order_gap(run_model: Any, inputs: Mapping[str, Any]) -> float:
    """By how much the kept orders lie above orders made for these exact sizes: the largest over the step's programs."""
    with lowtide.record_step() as watched:
        train_step(run_model, inputs)
    gaps = [0.0]
    for call, valuation in zip(watched.calls, watched.valuations(), strict=True):
        if call.forward is not None:
            continue  # the program of a backward is that of its forward
        program = call.code.captured
        sized = at_valuation(order_problem(program, tangents_held=scalar_tangents(program)), valuation)
        kept = [plan.order for plan in make_plans(program).plans]
        best = min(sized.peak(order) for order in kept)
        exact = min(sized.peak(order) for order in (*kept, *orders_at(sized, kept)))
        gaps.append(best / max(1, exact) - 1)
    return max(gaps)
