"""How the time to build, verify and profile a program grows with the number of its statements."""

from benchmarks.reporting import Report
from benchmarks.statements import measure

SIZES = (1000, 2500, 10_000)


def run(*, quick: bool = False) -> Report:
    """Time every stage at each size; quick leaves out the middle one.

    Returns:
        One row per size, in seconds; `statements_10000_seconds` adds up build, verify, profile and peak at 10,000
        statements, and `statements_growth` says how many times longer ten times the statements take.
    """
    rows = [{"statements": size, **measure(size)} for size in SIZES if not (quick and size == SIZES[1])]
    return Report(
        title="Programs of many statements, seconds per stage",
        rows=rows,
        summary={
            "statements_10000_seconds": rows[-1]["total"],
            "statements_growth": rows[-1]["total"] / rows[0]["total"],
        },
        notes=["total: build, verify, profile, footprints, peak and peak_at; growth: from 1,000 to 10,000 statements"],
    )
