"""The ordering problem in numbers: at one valuation, at several, and at several relative to a limit at each.

What a search adds up and compares is the same in all of them: sizes are integers, or rows of numbers of which the
largest counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lowtide.schedule.footprints import Integers, footprints, integer_columns
from lowtide.schedule.problem import Order, OrderProblem
from lowtide.symbolic import compile_batch


class Amounts(Protocol):
    """An ordering problem with what its buffers amount to: numbers, or arrays that are added up element by element."""

    @property
    def problem(self) -> OrderProblem:
        """The problem."""
        ...

    @property
    def sizes(self) -> Any:
        """A sequence: the amount of each buffer."""
        ...

    @property
    def workspace(self) -> Any:
        """A sequence: the amount that each statement needs while it runs."""
        ...

    @property
    def low_enough(self) -> float:
        """A peak that need not be lowered further."""
        ...

    @property
    def tolerance(self) -> float:
        """By how much a peak has to be lower to count as lower."""
        ...

    def height(self, amount: Any, /) -> float:
        """The number by which amounts are compared."""
        ...

    def heights(self, order: Sequence[int], /) -> list[float]:
        """The height of the footprint at each step of a legal order."""
        ...


@dataclass(frozen=True, slots=True)
class SizedProblem:
    """An ordering problem whose sizes are known.

    Attributes:
        problem: The problem.
        sizes: Bytes of each buffer.
        workspace: Bytes that each statement needs while it runs.
        low_enough, tolerance: See `Amounts`.
    """

    problem: OrderProblem
    sizes: tuple[int, ...]
    workspace: tuple[int, ...]
    low_enough: float = 0
    tolerance: float = 0

    def footprints(self, order: Sequence[int]) -> list[int]:
        """Bytes live during each step; see `footprints.footprints`."""
        sizes, workspace = integer_columns([self.sizes]), integer_columns([self.workspace])
        return [int(at) for at in footprints(self.problem, sizes, workspace, order)[:, 0]]

    def heights(self, order: Sequence[int]) -> list[float]:
        """The footprints."""
        return [*self.footprints(order)]

    def height(self, amount: int) -> int:
        """The bytes themselves."""
        return amount

    def peak(self, order: Order) -> int:
        """The largest footprint; see `footprints`."""
        return max(self.footprints(order), default=0)


@dataclass(frozen=True, slots=True)
class RelativeProblem:
    """An ordering problem at several valuations, measured by a limit at each: 1 is the limit, whatever its bytes.

    Attributes:
        problem: The problem.
        sizes: A row for each buffer, an element for each valuation.
        workspace: The same for the statements.
        low_enough, tolerance: See `Amounts`; they absorb rounding.
    """

    problem: OrderProblem
    sizes: NDArray[np.float64]
    workspace: NDArray[np.float64]
    low_enough: float = 1 + 1e-9
    tolerance: float = 1e-9

    def heights(self, order: Sequence[int]) -> list[float]:
        """The footprint at each step where it is worst."""
        return footprints(self.problem, self.sizes, self.workspace, order).max(axis=1).tolist()

    def height(self, amount: NDArray[np.float64]) -> float:
        """The worst element."""
        return float(amount.max())


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
        samples = _at_valuations(problem, valuations)
        return cls(samples, integer_columns(s.sizes for s in samples), integer_columns(s.workspace for s in samples))

    def relative_to(self, limits: Mapping[int, int]) -> RelativeProblem:
        """The problem at some of the samples, relative to a limit in bytes at each.

        Args:
            limits: For the index of a sample its limit.
        """
        chosen = list(limits)
        measure = np.maximum(1.0, np.array(list(limits.values()), dtype=float))
        sizes, workspace = (
            np.asarray(all_[:, chosen], dtype=float) / measure for all_ in (self._sizes, self._workspace)
        )
        return RelativeProblem(self.samples[0].problem, sizes, workspace)

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
    return _at_valuations(problem, [valuation])[0]


def _at_valuations(problem: OrderProblem, valuations: Iterable[Mapping[str, int]]) -> tuple[SizedProblem, ...]:
    distinct = list(dict.fromkeys((*problem.sizes, *problem.workspace)))
    batch = compile_batch(distinct)
    found: list[SizedProblem] = []
    for valuation in valuations:
        values = dict(zip(distinct, batch.integers_at(valuation), strict=True))
        sizes = tuple(values[size] for size in problem.sizes)
        found.append(SizedProblem(problem, sizes, tuple(values[size] for size in problem.workspace)))
    return tuple(found)
