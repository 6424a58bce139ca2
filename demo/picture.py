"""The picture of the demo: live memory over one training step at the largest batch."""

from collections.abc import Sequence
from pathlib import Path

from demo.column import ColumnResult

_COLOURS = {"eager": "#9a9a9a", "torch.compile": "#e8b878", "lowtide": "#1f6f8b"}
_WIDTHS = {"eager": 1.4, "torch.compile": 3.0, "lowtide": 1.4}  # where the last two agree, both are seen
_MIB = 2**20


def place_footprints(footprints: Sequence[int], totals: Sequence[int]) -> list[int | None]:
    """Find, for each predicted footprint, the allocation event after which exactly that many bytes were live.

    Walks both in order, so that a footprint is placed after the one before it. A footprint that was never
    measured has no place.
    """
    places: list[int | None] = []
    start = 0
    for footprint in footprints:
        found = next((index for index in range(start, len(totals)) if totals[index] == footprint), None)
        places.append(found)
        start = start if found is None else found
    return places


def draw_memory(results: Sequence[ColumnResult], shape: tuple[int, int], path: Path) -> None:
    """Draw the measured bytes of every column, and the predicted ones of lowtide on top, into a PNG file."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(10, 5), dpi=120)
    for result in results:
        events = len(result.timeline)
        axes.plot(
            [100 * (index + 1) / events for index in range(events)],
            [total / _MIB for total in result.timeline],
            drawstyle="steps-post",
            linewidth=_WIDTHS[result.name],
            color=_COLOURS[result.name],
            label=f"{result.name}: measured, peak {result.measured_peak / _MIB:,.1f} MiB",
        )
        placed = [
            (100 * (place + 1) / events, footprint / _MIB)
            for footprint, place in zip(
                result.predicted_footprints, place_footprints(result.predicted_footprints, result.timeline), strict=True
            )
            if place is not None
        ]
        if placed and result.predicted_peak is not None:
            axes.plot(
                [x for x, _ in placed],
                [y for _, y in placed],
                linestyle="none",
                marker="o",
                markersize=3.2,
                markerfacecolor="none",
                color="black",
                label=f"{result.name}: predicted per statement, peak {result.predicted_peak / _MIB:,.1f} MiB",
            )
    axes.set_title(f"Live memory during one training step, batch {shape[0]} x {shape[1]} tokens", loc="left")
    axes.set_xlabel("allocations and frees of the step, % of them done")
    axes.set_ylabel("MiB above the start of the step")
    axes.set_xlim(0, 100)
    # Room for the legend above the highest curve.
    axes.set_ylim(0, 1.4 * max(result.measured_peak for result in results) / _MIB)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", linewidth=0.4, alpha=0.6)
    axes.legend(frameon=False, loc="upper left", fontsize=9)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)
