"""Peers timed in one process and in turn, so that what slows the machine slows both."""

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Paired:
    """Seconds of two peers, measured A B A B ...

    Attributes:
        first: Seconds of A, one per round.
        second: Seconds of B, one per round.
    """

    first: Sequence[float]
    second: Sequence[float]

    @property
    def ratios(self) -> list[float]:
        """B over A, round by round."""
        return [b / a for a, b in zip(self.first, self.second, strict=True)]

    @property
    def ratio(self) -> float:
        """Median of B over A."""
        return statistics.median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        """Lower and upper quartile of B over A."""
        if len(self.first) < 2:
            return (self.ratio, self.ratio)
        low, _, high = statistics.quantiles(self.ratios, n=4, method="inclusive")
        return (low, high)


def time_paired(
    first: Callable[[], object], second: Callable[[], object], *, rounds: int, seconds: float, device: str = "cpu"
) -> Paired:
    """Time two callables in turn, the order swapped every other round.

    Args:
        first: A. Call it before, so that nothing compiles here.
        second: B.
        rounds: At least this many pairs.
        seconds: Keep going until about this long has passed, for steps that are short and so more scattered.
        device: Waited for after every call.
    """
    times: tuple[list[float], list[float]] = ([], [])
    peers = (first, second)
    gc.collect()
    gc.disable()  # a collection would hit whoever runs at that moment
    try:
        end = time.perf_counter() + seconds
        done = 0
        while done < rounds or time.perf_counter() < end:
            for peer in (0, 1) if done % 2 == 0 else (1, 0):
                start = time.perf_counter()
                peers[peer]()
                if device != "cpu":
                    torch.cuda.synchronize(device)
                times[peer].append(time.perf_counter() - start)
            done += 1
    finally:
        gc.enable()
    return Paired(*times)
