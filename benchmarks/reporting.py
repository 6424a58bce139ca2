"""What every benchmark prints and writes: one table, and JSON with machine, commit, rows and summary."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of one benchmark.

    Attributes:
        title: Heading of the table.
        rows: One mapping per line, all with the same keys.
        summary: Key figures, by name.
        notes: What a reader of the table should know.
    """

    title: str
    rows: Sequence[Mapping[str, Any]]
    summary: Mapping[str, Any]
    notes: Sequence[str] = field(default=())


def describe_machine() -> dict[str, Any]:
    """Say what the figures were taken on."""
    import torch

    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def find_commit() -> str:
    """Name the commit that runs, with "+changes" where the tracked files differ from it."""
    try:
        head = _git("rev-parse", "HEAD")
        return f"{head}+changes" if _git("status", "--porcelain", "--untracked-files=no") else head
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def write_json(report: Report, path: Path) -> None:
    """Write the report where `--json` says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"machine": describe_machine(), "commit": find_commit(), **asdict(report)}
    path.write_text(json.dumps(content, indent=2, default=str) + "\n", encoding="utf-8")


def log_row(row: Mapping[str, Any]) -> None:
    """Show a row on the error stream as soon as it is there: a benchmark may run for an hour."""
    cells = (f"{key} {format_cell(key, value)}" for key, value in row.items() if value is not None)
    print("  ".join(cells), file=sys.stderr, flush=True)


def print_report(report: Report, console: Console | None = None) -> None:
    """Print the rows as one table, then the summary and the notes."""
    console = console or make_console()
    if report.rows:
        table = Table(title=report.title, title_justify="left")
        for key, value in report.rows[0].items():
            table.add_column(key.replace("_", " "), justify="left" if isinstance(value, str) else "right")
        for row in report.rows:
            table.add_row(*(format_cell(key, value) for key, value in row.items()))
        console.print(table)
    for key, value in report.summary.items():
        console.print(f"{key}: {format_cell(key, value)}", highlight=False)
    for note in report.notes:
        console.print(note, style="dim", highlight=False)


def make_console() -> Console:
    """Make a console wide enough for a table also where the output is a file."""
    return Console() if sys.stdout.isatty() else Console(width=160)


def format_cell(key: str, value: Any) -> str:
    """Write one value for people; JSON keeps the exact number."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 100 else f"{value:,.0f}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return " x ".join(map(str, value))
    return str(value)


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
