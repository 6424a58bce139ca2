"""Delays what only allocates until something needs it, and otherwise keeps a given order."""

from __future__ import annotations

from lowtide.schedule.numbers import SizedProblem
from lowtide.schedule.problem import Order


def delayed_order(sized: SizedProblem, order: Order) -> Order:
    """Postpone every statement that allocates more than it frees until a later one needs its result.

    Args:
        sized: The problem at one valuation.
        order: A legal order.

    Cost: O(accesses + dependences).
    """
    problem, sizes = sized.problem, sized.sizes
    left = list(problem.touchers)
    ran = [False] * len(order)
    found: list[int] = []

    def run(number: int) -> None:
        """Run a statement and, before it, what it needs, in the given order."""
        needed, stack = {number}, [number]
        while stack:
            for predecessor in problem.predecessors[stack.pop()]:
                if not ran[predecessor] and predecessor not in needed:
                    needed.add(predecessor)
                    stack.append(predecessor)
        for statement in sorted(needed, key=place.__getitem__) if len(needed) > 1 else needed:
            ran[statement] = True
            found.append(statement)
            for buffer in problem.touches[statement]:
                left[buffer] -= 1

    place = {number: step for step, number in enumerate(order)}
    for phase in (order[: problem.boundary], order[problem.boundary :]):
        for number in phase:
            if ran[number]:
                continue
            freed = sum(sizes[b] for b in problem.touches[number] if left[b] == 1)
            if sum(sizes[b] for b in problem.births[number]) <= freed:
                run(number)
        for number in phase:
            if not ran[number]:
                run(number)
    return tuple(found)
