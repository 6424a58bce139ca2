"""The choice of an order at entry: the peak of each kept order is evaluated at the sizes of the call."""

from collections.abc import Mapping, Sequence

from lowtide.analysis import PeakTable

_MOST_REMEMBERED = 4096


class OrderChooser:
    """Chooses the order with the least peak by sizes, the first among equals, and remembers.

    Args:
        peaks: Predicted peak of each kept order, over variables known at entry; empty where there is one order.
    """

    def __init__(self, peaks: Sequence[PeakTable]) -> None:
        self._peaks = tuple(peaks)
        self._dims = sorted(frozenset().union(*(peak.dims for peak in self._peaks)))
        self._known: dict[tuple[int, ...], int] = {}

    def choose(self, sizes: Mapping[str, int]) -> int:
        """Index of the order to run.

        Args:
            sizes: An integer for every variable that is known at entry, machine parameters included.

        Cost: one look-up at sizes seen before; else one evaluation of each peak.
        """
        if not self._peaks:
            return 0
        key = tuple(sizes[name] for name in self._dims)
        if key not in self._known:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            peaks = [peak.at(sizes) for peak in self._peaks]
            self._known[key] = peaks.index(min(peaks))
        return self._known[key]
