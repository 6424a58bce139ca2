"""The ordering problem at one valuation: sizes are integers, so an order has footprints and a peak."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lowtide.schedule.footprints import Integers, footprints, integer_columns
from lowtide.schedule.problem import Order, OrderProblem
from lowtide.symbolic import compile_batch


@dataclass(frozen=True, slots=True)
class SizedProblem:
    """An ordering problem whose sizes are known.

    Attributes:
        problem: The problem.
        sizes: Bytes of each buffer.
        workspace: Bytes that each statement needs while it runs.
    """

    problem: OrderProblem
    sizes: tuple[int, ...]
    workspace: tuple[int, ...]

    def footprints(self, order: Order) -> list[int]:
        """Bytes live during each step; see `footprints.footprints`."""
        sizes, workspace = integer_columns([self.sizes]), integer_columns([self.workspace])
        return [int(at) for at in footprints(self.problem, sizes, workspace, order)[:, 0]]

    def peak(self, order: Order) -> int:
        """The largest footprint; see `footprints`."""
        return max(self.footprints(order), default=0)


@dataclass(frozen=True, slots=True)
class SampledProblem:
    """An ordering problem at several valuations.

    Attributes:
        samples: The problem at each of them.
    """

    samples: tuple[SizedProblem, ...]
    _sizes: Integers
    _workspace: Integers

    @classmethod
    def of(cls, problem: OrderProblem, valuations: Iterable[Mapping[str, int]]) -> SampledProblem:
        """Put the integers of each valuation for the sizes of a problem."""
        samples = tuple(at_valuation(problem, valuation) for valuation in valuations)
        return cls(samples, integer_columns(s.sizes for s in samples), integer_columns(s.workspace for s in samples))

    def peaks(self, order: Order) -> tuple[int, ...]:
        """The peak of an order at each sample.

        Cost: O(accesses), and O(samples) additions for each of them.
        """
        if not self.samples:
            return ()
        found = footprints(self.samples[0].problem, self._sizes, self._workspace, order)
        return tuple(int(peak) for peak in found.max(axis=0, initial=0))


def at_valuation(problem: OrderProblem, valuation: Mapping[str, int]) -> SizedProblem:
    """Put integers for the sizes of a problem.

    Cost: one evaluation of each distinct size.
    """
    distinct = list(dict.fromkeys((*problem.sizes, *problem.workspace)))
    values = dict(zip(distinct, compile_batch(distinct).integers_at(valuation), strict=True))
    return SizedProblem(problem, tuple(values[s] for s in problem.sizes), tuple(values[w] for w in problem.workspace))
