"""Orders that look at dependences alone: depth first from what is returned, and reverse post-order."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.schedule.problem import Order, OrderProblem


def depth_first_order(problem: OrderProblem) -> Order:
    """Run a statement right after what it needs, the results in program order: every operand as late as possible.

    Cost: linear.
    """
    results = [number for number, after in enumerate(problem.successors) if not after]
    return _by_phase(problem, _post_order(problem.predecessors, results))


def reverse_post_order(problem: OrderProblem) -> Order:
    """Reverse of the order in which a depth-first walk along the dependences leaves the statements.

    Every statement as soon as what it needs has run, later branches first. MAGIS's public code schedules in this way.

    Cost: linear.
    """
    starts = [number for number, before in enumerate(problem.predecessors) if not before]
    return _by_phase(problem, _post_order(problem.successors, starts)[::-1])


def _post_order(neighbours: Sequence[Sequence[int]], starts: Sequence[int]) -> list[int]:
    """The order in which a depth-first walk from `starts` leaves the statements. Not recursive: chains are long."""
    left: list[int] = []
    seen = [False] * len(neighbours)
    for start in starts:
        if seen[start]:
            continue
        seen[start] = True
        stack = [(start, iter(neighbours[start]))]
        while stack:
            number, following = stack[-1]
            for neighbour in following:
                if not seen[neighbour]:
                    seen[neighbour] = True
                    stack.append((neighbour, iter(neighbours[neighbour])))
                    break
            else:
                stack.pop()
                left.append(number)
    return left


def _by_phase(problem: OrderProblem, order: list[int]) -> Order:
    """Forward before backward; each half keeps its order, so no dependence is broken."""
    return (*(n for n in order if n < problem.boundary), *(n for n in order if n >= problem.boundary))
