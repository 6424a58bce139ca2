"""Orders that look at dependences alone: depth first from what is returned, and reverse post-order."""

from __future__ import annotations

from lowtide.schedule.problem import Order, OrderProblem


def depth_first_order(problem: OrderProblem) -> Order:
    """Run a statement right after what it needs, the results in program order: every operand as late as possible.

    Cost: linear.
    """
    successors = problem.successors
    results = [number for number, after in enumerate(successors) if not after]
    return _post_order(problem, sorted(results, key=lambda n: (n >= problem.boundary, n)))


def reverse_post_order(problem: OrderProblem) -> Order:
    """Reverse of the order in which a depth-first walk along the dependences leaves the statements.

    Every statement as soon as what it needs has run, later branches first. MAGIS's public code schedules in this way.

    Cost: linear.
    """
    count = len(problem.successors)
    left: list[int] = []
    seen = [False] * count
    starts = [number for number in range(count) if not problem.predecessors[number]]
    for start in starts:
        stack = [(start, iter(problem.successors[start]))]
        if seen[start]:
            continue
        seen[start] = True
        while stack:
            number, following = stack[-1]
            for successor in following:
                if not seen[successor]:
                    seen[successor] = True
                    stack.append((successor, iter(problem.successors[successor])))
                    break
            else:
                stack.pop()
                left.append(number)
    reverse = left[::-1]
    return _by_phase(problem, reverse)


def _post_order(problem: OrderProblem, results: list[int]) -> Order:
    found: list[int] = []
    seen = [False] * len(problem.predecessors)
    for result in results:
        if seen[result]:
            continue
        seen[result] = True
        stack = [(result, iter(problem.predecessors[result]))]
        while stack:
            number, needed = stack[-1]
            for predecessor in needed:
                if not seen[predecessor]:
                    seen[predecessor] = True
                    stack.append((predecessor, iter(problem.predecessors[predecessor])))
                    break
            else:
                stack.pop()
                found.append(number)
    return _by_phase(problem, found)


def _by_phase(problem: OrderProblem, order: list[int]) -> Order:
    """Forward before backward; each half keeps its order, so no dependence is broken."""
    return (*(n for n in order if n < problem.boundary), *(n for n in order if n >= problem.boundary))
