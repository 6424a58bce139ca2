"""Measured peaks of training: lowtide beside torch.compile, and beside lowtide compiled for one shape alone.

The static program has kernels of its own, made for its shape: what it saves against the one program for every shape is
partly lowering, partly order. The order's part is found by ordering the dynamic program for exact sizes.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import lowtide
from benchmarks.backends import LOWTIDE_STATIC, make_column
from benchmarks.models import CASES, CONV_NET, Case, Shape, chosen
from benchmarks.peers import Peer, make_pair
from benchmarks.reporting import Report, log_row
from benchmarks.threads import running_on
from lowtide.schedule import make_plans, scalar_tangents
from lowtide.schedule.candidates import orders_at
from lowtide.schedule.numbers import at_valuation
from lowtide.schedule.problem import order_problem

# Compiling once more for each shape is most of the time.
_STATIC_SHAPES = 2


def run(*, quick: bool = False, device: str = "cpu", only: str = "") -> Report:
    """Measure every case; quick takes one, at two shapes.

    Args:
        quick: A short run.
        device: Where the models run.
        only: Leave out the cases whose name does not contain this.
    """
    rows: list[Mapping[str, Any]] = []
    failures: list[str] = []
    static = 0 if quick else _STATIC_SHAPES
    # Two threads may add up in another order each time; on one, gradients are compared bit for bit.
    with running_on(threads=1):
        for case in chosen((CONV_NET,) if quick else CASES, only):
            for row in _rows(case, case.unseen[:2] if quick else case.unseen, static, device, failures):
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
            *failures,
        ],
    )


def _rows(
    case: Case, shapes: Sequence[Shape], static: int, device: str, failures: list[str]
) -> Iterator[Mapping[str, Any]]:
    pair = make_pair(case, device)
    for shape, inputs in pair.batches(shapes, device, failures):
        peaks = pair.compare_peaks(inputs, device)
        static_peak = _static_peak(case, inputs, device) if shape in shapes[:static] else None
        yield {
            "model": case.name,
            "shape": list(shape),
            **peaks,
            "static_peak": static_peak,
            "static_gap": None if static_peak is None else peaks["lowtide_peak"] / static_peak - 1,
            "order_gap": None if static_peak is None else _order_gap(pair.ours, inputs),
            "gradients_differ": pair.count_differing(inputs, pair.ours.gradients(inputs)),
        }


def _static_peak(case: Case, inputs: Mapping[str, Any], device: str) -> int:
    model = case.make_model().to(device)
    peer = Peer(model, make_column(LOWTIDE_STATIC, model))
    peer.step(inputs)
    return peer.measure(inputs, device)


def _order_gap(peer: Peer, inputs: Mapping[str, Any]) -> float:
    """By how much the kept orders lie above orders made for these exact sizes: the largest over the step's programs."""
    with lowtide.record_step() as watched:
        peer.step(inputs)
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
