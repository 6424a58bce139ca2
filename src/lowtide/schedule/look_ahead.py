"""Greedy scheduling with look-ahead: of the statements that are ready, run the one that leads to the lowest rise.

List scheduling by impact looks at one statement: it takes what allocates least now, also where that opens a branch
which can only grow. Here each of the few statements of least impact is followed for some steps, always by the one of
least impact, and the one with the lowest footprint on the way wins.

    ready   impact   followed for three steps    highest
    a       10       a  a2(+50)  a3(-55)         60
    b       20       b  b2(-20)  a (+10)         20       <- run
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from lowtide.schedule.numbers import SizedProblem
from lowtide.schedule.problem import Order

_BREADTH = 4
_DEPTH = 6


def look_ahead_order(sized: SizedProblem) -> Order:
    """Order by the highest footprint of the next few steps, at one valuation.

    Storage that is taken over is not looked at.

    Cost: O(accesses x log ready statements), and at each step the followers of up to `_BREADTH * _DEPTH` statements:
        quadratic where thousands follow one statement.
    """
    walk = _Walk(sized)
    return (*walk.phase(range(sized.problem.boundary)), *walk.phase(range(sized.problem.boundary, len(walk.waits))))


class _Walk:
    """What has run so far; a step can be undone."""

    def __init__(self, sized: SizedProblem) -> None:
        self._problem = sized.problem
        self._sizes = sized.sizes
        self._workspace = sized.workspace
        self._left = list(sized.problem.touchers)
        self._allocates = [sum(sized.sizes[b] for b in births) for births in sized.problem.births]
        self.waits = [len(before) for before in sized.problem.predecessors]
        # The statements that are ready by impact, and the impact under which each is found there.
        self._ready: list[tuple[int, int]] = []
        self._listed: dict[int, int] = {}
        self._touching: list[set[int]] = [set() for _ in self._sizes]
        for number, touched in enumerate(sized.problem.touches):
            for buffer in touched:
                self._touching[buffer].add(number)

    def phase(self, statements: range) -> list[int]:
        """Order the statements of one phase."""
        for number in statements:
            if not self.waits[number]:
                self._list(number)
        found: list[int] = []
        for _ in statements:
            shortlist = [number for _, number in self._ready[:_BREADTH]]
            number = shortlist[0]
            if len(shortlist) > 1:
                number = min(shortlist, key=lambda other: self._rise(other, shortlist, statements))
            self._unlist(number)
            for follower in self._run(number):
                if follower in statements:
                    self._list(follower)
            self._update_last_touchers(number)
            found.append(number)
        return found

    def _list(self, number: int) -> None:
        self._listed[number] = self._impact(number)
        insort(self._ready, (self._listed[number], number))

    def _unlist(self, number: int) -> None:
        del self._ready[bisect_left(self._ready, (self._listed.pop(number), number))]

    def _update_last_touchers(self, number: int) -> None:
        """List those anew whose impact has changed: they have become the last to touch a buffer."""
        for buffer in self._problem.touches[number]:
            self._touching[buffer].discard(number)
            if self._left[buffer] == 1:
                for last in self._touching[buffer]:
                    if last in self._listed:
                        self._unlist(last)
                        self._list(last)

    def _rise(self, number: int, shortlist: Iterable[int], statements: range) -> tuple[int, int]:
        """The highest bytes above those live now on the way, and those at its end."""
        ran: list[int] = []
        near = set(shortlist)
        live = highest = 0
        for _ in range(_DEPTH):
            highest = max(highest, live + self._allocates[number] + self._workspace[number])
            live += self._impact(number)
            near.discard(number)
            near |= {follower for follower in self._run(number) if follower in statements}
            ran.append(number)
            if live <= 0 or not near:
                break
            number = min(near, key=lambda other: (self._impact(other), other))
        for done in reversed(ran):
            self._undo(done)
        return highest, live

    def _impact(self, number: int) -> int:
        """Bytes that a statement allocates, minus those that it frees, if it runs now."""
        impact = self._allocates[number]
        for buffer in self._problem.touches[number]:
            if self._left[buffer] == 1:
                impact -= self._sizes[buffer]
        return impact

    def _run(self, number: int) -> list[int]:
        """Run a statement; return those that become ready."""
        for buffer in self._problem.touches[number]:
            self._left[buffer] -= 1
        awaited: list[int] = []
        for follower in self._problem.successors[number]:
            self.waits[follower] -= 1
            if not self.waits[follower]:
                awaited.append(follower)
        return awaited

    def _undo(self, number: int) -> None:
        for buffer in self._problem.touches[number]:
            self._left[buffer] += 1
        for follower in self._problem.successors[number]:
            self.waits[follower] += 1
