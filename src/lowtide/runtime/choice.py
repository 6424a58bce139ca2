"""The choice of an order at entry: the peak of each kept order is evaluated at the sizes of the call."""

from collections.abc import Mapping, Sequence

from lowtide.schedule import OrderPeak

_MOST_REMEMBERED = 4096


class OrderChooser:
    """Chooses the order with the least peak by sizes, the first among equals, and remembers.

    Args:
        peaks: Of each kept order, the program's own first, over variables known at entry; empty where there is one.
    """

    def __init__(self, peaks: Sequence[OrderPeak]) -> None:
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
        chosen = self._known.get(key)
        if chosen is None:
            chosen = self._evaluate(sizes)
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[key] = chosen
        return chosen

    def _evaluate(self, sizes: Mapping[str, int]) -> int:
        peaks = [kept.peak.at(sizes) for kept in self._peaks]
        bounded = [[table.at(sizes) for table in kept.not_above] for kept in self._peaks]
        # What is not known at entry may come on top there: an order that is higher there may be higher at all.
        safe = [
            index
            for index in range(len(peaks))
            if all(here <= own for here, own in zip(bounded[index], bounded[0], strict=True))
        ]
        return min(safe, key=peaks.__getitem__)
