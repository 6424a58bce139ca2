"""What choosing orders is worth, and how far one set of orders for all shapes is from the best order of each shape.

Programs are those that lowtide makes of the models, for training and for inference, with the same kernels in every
column; only the order differs. Peaks are predicted ones, which `accounting` holds against measured ones.

    program      the order in which the program was captured
    topology     list scheduling that looks at no size
    symbolic     list scheduling by symbolic impact, program order where impacts cannot be compared
    paper        the same with topology where impacts cannot be compared (BladeDISC++)
    best_of      the best of all schedulers at the sizes of the shape, none of them repaired
    kept         the least of the orders that lowtide keeps
    exact        the least of all of these, and of what repair makes of them at the exact sizes: the oracle

Without reuse, the kept orders are those that were chosen with it; the summary's gaps are those with reuse.
"""

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import lowtide
from benchmarks.backends import LOWTIDE, make_column, reset_compiler
from benchmarks.models import CASES, LLAMA, Case, chosen
from benchmarks.reporting import Report, log_row
from benchmarks.statements import training_program
from benchmarks.steps import inference_step, to_device, train_step
from lowtide.ir import Program
from lowtide.schedule import make_plans, scalar_tangents
from lowtide.schedule.candidates import MOST_SAMPLES, machine_parameters, orders_at
from lowtide.schedule.list_order import ListTally, sized_order, symbolic_order, topology_order
from lowtide.schedule.numbers import SizedProblem, at_valuation
from lowtide.schedule.problem import Order, order_problem
from lowtide.schedule.repair import Effort
from lowtide.schedule.samples import sample_valuations
from lowtide.schedule.schedulers import best_of

SHAPES = 24
# The oracle tries harder than lowtide does at compile time.
ORACLE = Effort(width=200, rounds=200)


@dataclass(frozen=True, slots=True)
class Named:
    """A program and what the tables call it."""

    name: str
    program: Program


def run(*, quick: bool = False, device: str = "cpu", only: str = "") -> Report:
    """Compare ways of ordering; quick takes one model and fewer shapes.

    Args:
        quick: A short run.
        device: Where the models run.
        only: Leave out the cases whose name does not contain this.
    """
    rows: list[dict[str, Any]] = []
    tally = ListTally()
    gaps: list[float] = []
    wrong: list[bool] = []
    mattered: list[bool] = []
    for named in _programs(chosen((LLAMA,) if quick else CASES, only), device, training_only=quick):
        kept = [plan.order for plan in make_plans(named.program).plans]
        for with_reuse in (True, False):
            row, found = _compare(named, kept, with_reuse, SHAPES // 3 if quick else SHAPES, tally)
            log_row(row)
            rows.append(row)
            if not with_reuse:
                continue
            gaps += [shape["kept"] / shape["exact"] - 1 for shape in found]
            wrong += [shape["paper"] > shape["list_exact"] for shape in found]
            mattered += [shape["kept"] < shape["first_kept"] for shape in found]
    seconds = {count: _seconds_to_plan(count) for count in (1000, 10_000)}
    return Report(
        title="Orders: predicted peaks beside those of exact sizes, same kernels",
        rows=rows,
        summary={
            "programs": len({row["name"] for row in rows}),
            "shapes": len(gaps),
            "dynamic_gap_max": max(gaps, default=None),
            "dynamic_gap_median": statistics.median(gaps) if gaps else None,
            "dynamic_gaps": sum(gap > 0 for gap in gaps),
            "unknown_share": tally.comparisons.unknown_share,
            "wrong_order_share": sum(wrong) / max(1, len(wrong)),
            "choice_mattered_share": sum(mattered) / max(1, len(mattered)),
            "topology_decided_share": tally.by_topology / max(1, tally.choices),
            "rules": _rules(tally),
            "statements_10000_seconds": seconds[10_000],
            "statements_growth": seconds[10_000] / seconds[1000],
        },
        notes=[
            "columns: largest ratio over the shapes to the program's own order; gap: kept above exact, largest",
            "wrong_order_share: shapes at which scheduling by symbolic impact has a higher peak than by exact impact",
            "choice_mattered_share: shapes at which another kept order beats the program's own",
        ],
    )


def _programs(cases: Sequence[Case], device: str, *, training_only: bool) -> Iterator[Named]:
    for case in cases:
        for training in (True,) if training_only else (True, False):
            reset_compiler()
            model = case.make_model().to(device).train(training)
            column = make_column(LOWTIDE, model)
            step = train_step if training else inference_step
            step(column.run, to_device(case.make(*case.first), device))
            explained = lowtide.explain(column.run).programs
            for index, program in enumerate(explained):
                part = f" {index}" if len(explained) > 1 else ""
                yield Named(f"{case.name} {'training' if training else 'inference'}{part}", program.captured)


def _compare(
    named: Named, kept: Sequence[Order], with_reuse: bool, shapes: int, tally: ListTally
) -> tuple[dict[str, Any], list[Mapping[str, int]]]:
    program = named.program
    problem = order_problem(program, tangents_held=scalar_tangents(program))
    if not with_reuse:
        problem = replace(problem, takeovers=tuple(() for _ in problem.takeovers))
    fixed = {
        "program": problem.program_order,
        "topology": topology_order(problem),
        "symbolic": symbolic_order(problem, topology=False),
        "paper": symbolic_order(problem, tally=tally if with_reuse else None),
    }
    # The last of so many are not among those at which orders were searched, wherever the scope has enough.
    valuations = sample_valuations(program.scope, MOST_SAMPLES + shapes, machine_parameters(problem))[-shapes:]
    found = [_peaks(at_valuation(problem, valuation), fixed, kept) for valuation in valuations]
    columns = [*list(fixed)[1:], "best_of", "kept", "exact"]
    row: dict[str, Any] = {"name": named.name, "statements": len(program.statements), "reuse": with_reuse}
    row["orders"] = len(kept)
    row |= {column: round(max(shape[column] / shape["program"] for shape in found), 4) for column in columns}
    row["gap"] = round(max(shape["kept"] / shape["exact"] - 1 for shape in found), 5)
    return row, found


def _peaks(sized: SizedProblem, fixed: Mapping[str, Order], kept: Sequence[Order]) -> Mapping[str, int]:
    peaks = {name: sized.peak(order) for name, order in fixed.items()}
    peaks["kept"] = min(sized.peak(order) for order in kept)
    peaks["first_kept"] = sized.peak(kept[0])
    peaks["list_exact"] = sized.peak(sized_order(sized))
    best = best_of(sized)
    peaks["best_of"] = sized.peak(best)
    known = [*fixed.values(), best, *kept]
    peaks["exact"] = min(sized.peak(order) for order in (*known, *orders_at(sized, known, ORACLE)))
    return peaks


def _rules(tally: ListTally) -> dict[str, float]:
    """Share of each rule among the comparisons of impacts."""
    shares: dict[str, float] = {}
    for rule, _, count in tally.comparisons.rows():
        shares[rule.name] = shares.get(rule.name, 0) + count / max(1, tally.comparisons.comparisons)
    return {name: round(share, 4) for name, share in shares.items()}


def _seconds_to_plan(count: int) -> float:
    program = training_program(count)
    start = time.perf_counter()
    make_plans(program)
    return time.perf_counter() - start
