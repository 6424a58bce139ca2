"""The ordering problem at one valuation: sizes are integers, so an order has footprints and a peak."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
        """Bytes live during each step, storage being taken over wherever the kernel permits it.

        Guarantee: exact where every takeover that the order permits is made; workspace of unknown size is left out.
        Cost: O(accesses).
        """
        problem, sizes = self.problem, self.sizes
        left = list(problem.touchers)
        late: list[int] = []
        live = sum(sizes[b] for b in problem.at_forward)
        in_forward = True
        found: list[int] = []
        for number in order:
            if in_forward and number >= problem.boundary:
                in_forward = False
                live += sum(sizes[b] for b in problem.at_backward) - sum(sizes[b] for b in late)
            born = sum(sizes[b] for b in problem.births[number])
            saved = self.taken_over(number, left) if problem.takeovers[number] else 0
            found.append(live + born + self.workspace[number] - saved)
            live += born
            for buffer in problem.touches[number]:
                left[buffer] -= 1
                if left[buffer] == 0:
                    if in_forward and buffer in problem.early_deaths:
                        late.append(buffer)
                    else:
                        live -= sizes[buffer]
        return found

    def peak(self, order: Order) -> int:
        """The largest footprint; see `footprints`."""
        return max(self.footprints(order), default=0)

    def taken_over(self, number: int, left: list[int]) -> int:
        """Bytes that statement `number` need not allocate, given how many touchers each buffer still has."""
        saved = 0
        used: set[int] = set()
        for new, donor in self.problem.takeovers[number]:
            if left[donor] == 1 and new not in used and donor not in used:
                used |= {new, donor}
                saved += self.sizes[new]
        return saved


def at_valuation(problem: OrderProblem, valuation: Mapping[str, int]) -> SizedProblem:
    """Put integers for the sizes of a problem.

    Cost: one evaluation of each distinct size.
    """
    distinct = list(dict.fromkeys((*problem.sizes, *problem.workspace)))
    values = dict(zip(distinct, compile_batch(distinct).integers_at(valuation), strict=True))
    return SizedProblem(problem, tuple(values[s] for s in problem.sizes), tuple(values[w] for w in problem.workspace))
