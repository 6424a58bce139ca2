"""Run one benchmark: `python -m benchmarks NAME [--quick] [--json FILE]`."""

import argparse
import importlib
import os
from collections.abc import Sequence
from pathlib import Path

# Quiet torch's profiler before torch is loaded, here and in the processes that are started.
os.environ.setdefault("KINETO_LOG_LEVEL", "9")

from benchmarks.reporting import Report, print_report, write_json

# Each benchmark is the modules of its name; several are one command with one summary.
BENCHMARKS = {
    "accounting": ("benchmarks.accounting",),
    "parity": ("benchmarks.parity",),
    "scheduling": (
        "benchmarks.scheduling",
        "benchmarks.peer_peaks",
        "benchmarks.order_cases",
        "benchmarks.fusion_cost",
    ),
    "symbolic": ("benchmarks.symbolic", "benchmarks.scaling"),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark named on the command line, print its table and write its JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=sorted(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="a short run: fewer models, fewer shapes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write machine, commit, rows and summary")
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda; symbolic has no device")
    parser.add_argument("--only", default="", metavar="NAME", help="the cases whose name contains NAME; not symbolic")
    options = parser.parse_args(arguments)
    reports: list[Report] = []
    for module in BENCHMARKS[options.name]:
        run = importlib.import_module(module).run
        given = {} if options.name == "symbolic" else {"device": options.device, "only": options.only}
        reports.append(run(quick=options.quick, **given))
        print_report(reports[-1])
    if options.json:
        write_json(_merge(reports), options.json)


def _merge(reports: Sequence[Report]) -> Report:
    """Join the parts of one command; their summaries have different keys."""
    return Report(
        title="; ".join(report.title for report in reports),
        rows=[row for report in reports for row in report.rows],
        summary={key: value for report in reports for key, value in report.summary.items()},
        notes=[note for report in reports for note in report.notes],
    )


if __name__ == "__main__":
    main()
