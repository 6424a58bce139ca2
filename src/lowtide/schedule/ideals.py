r"""The best order of a window of steps, by dynamic programming over the sets of statements that may have run.

A set that contains everything its members depend on is an ideal. What is live after an ideal does not depend on the
order in which it was run, so the search keeps one entry for each ideal: the smallest peak that reaches it.

    steps      ... | a  b  c  d  e | ...          ideals   {} -> {a} -> {a,c} -> ... -> {a,b,c,d,e}
                    \___ window __/                          \-> {b} -> ...

Two things keep it small. A statement that frees at least what it allocates, without raising the peak so far, is run at
once: an exchange argument shows that nothing is lost. And where a level has more ideals than `width`, only the most
promising stay; the result is then an order that was found, no longer one proved best. Source: adaptive soft budgeting
of Ahn et al., "Ordering Chaos" (2020), section 3, restricted to a window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lowtide.schedule.numbers import Amounts
from lowtide.schedule.problem import Order


@dataclass(slots=True)
class _State:
    peak: float
    live: Any
    ran: int
    ready: int
    last: int
    before: _State | None


def best_window(
    amounts: Amounts, statements: Sequence[int], left: Sequence[int], live: Any, *, below: float, width: int
) -> Order | None:
    """Find an order of a window whose footprints all lie below a limit.

    Args:
        amounts: The problem, and what its buffers amount to.
        statements: The statements of the window, in a legal order; all of one phase.
        left: For each buffer, how many touchers have not run before the window.
        live: What is live before the window.
        below: Only orders with every footprint below this height are of interest.
        width: Ideals kept of each size.

    Returns:
        The order with the smallest peak that was found, the least there is where no level had more than `width` ideals;
        None where every order tried reaches `below`.

    Cost: O(statements x width x ready statements) sums of amounts.
    """
    search = _Search(amounts, statements, left)
    states = {0: _State(0, live, 0, search.first_ready, -1, None)}
    for _ in statements:
        found: dict[int, _State] = {}
        for state in states.values():
            search.expand(state, below, found)
        if not found:
            return None
        if len(found) > width:
            best = sorted(found.values(), key=search.promise)[:width]
            found = {state.ran: state for state in best}
        states = found
    (final,) = states.values()
    return search.order_of(final)


class _Search:
    """What the expansion of a state needs, with statements and buffers of the window as bits."""

    def __init__(self, amounts: Amounts, statements: Sequence[int], left: Sequence[int]) -> None:
        problem, sizes = amounts.problem, amounts.sizes
        self._height = amounts.height
        self._statements = statements
        place = {number: index for index, number in enumerate(statements)}
        needs = [sum(1 << place[p] for p in problem.predecessors[n] if p in place) for n in statements]
        self.first_ready = sum(1 << index for index, needed in enumerate(needs) if not needed)
        self._followers = [
            [(1 << place[f], needs[place[f]]) for f in problem.successors[n] if f in place] for n in statements
        ]
        nothing = amounts.workspace[statements[0]] * 0  # a number, or an array of them
        self._allocates = [sum((sizes[b] for b in problem.births[n]), start=nothing) for n in statements]
        self._occupies = [self._allocates[index] + amounts.workspace[n] for index, n in enumerate(statements)]
        touchers: dict[int, int] = {}
        count: dict[int, int] = {}
        for index, number in enumerate(statements):
            for buffer in problem.touches[number]:
                touchers[buffer] = touchers.get(buffer, 0) | 1 << index
                count[buffer] = count.get(buffer, 0) + 1
        # A buffer ends in the window if nothing after the window touches it; where, depends on the order.
        ends = {b for b in touchers if left[b] == count[b] and b not in problem.early_deaths}
        self._ends = [
            [(touchers[b] & ~(1 << i), sizes[b]) for b in problem.touches[n] if b in ends]
            for i, n in enumerate(statements)
        ]
        self._takeovers = [
            [
                (new, donor, touchers[donor] & ~(1 << i), sizes[new])
                for new, donor in problem.takeovers[n]
                if donor in ends
            ]
            for i, n in enumerate(statements)
        ]

    def promise(self, state: _State) -> tuple[float, float, int]:
        """The states to keep come first."""
        height = self._height(state.live)
        return max(state.peak, height), height, state.ran

    def expand(self, state: _State, below: float, found: dict[int, _State]) -> None:
        """Add to `found` every state that one more statement reaches, or the one that loses nothing."""
        height = self._height
        reached: list[_State] = []
        remaining = state.ready
        while remaining:
            bit = remaining & -remaining
            remaining ^= bit
            index = bit.bit_length() - 1
            footprint = state.live + self._occupies[index]
            if self._takeovers[index]:
                footprint = footprint - self._taken(index, state.ran)
            peak = height(footprint)
            if peak >= below:
                continue
            ran = state.ran | bit
            change = self._allocates[index]
            for others, size in self._ends[index]:
                if not others & ~ran:
                    change = change - size
            ready = state.ready ^ bit
            for follower, needs in self._followers[index]:
                if not needs & ~ran:
                    ready |= follower
            following = _State(max(state.peak, peak), state.live + change, ran, ready, index, state)
            if peak <= state.peak and height(change) <= 0:
                reached = [following]
                break
            reached.append(following)
        for following in reached:
            known = found.get(following.ran)
            if known is None or following.peak < known.peak:
                found[following.ran] = following

    def _taken(self, index: int, ran: int) -> Any:
        saved: Any = 0
        used: set[int] = set()
        for new, donor, others, size in self._takeovers[index]:
            if not others & ~ran and new not in used and donor not in used:
                used |= {new, donor}
                saved = saved + size
        return saved

    def order_of(self, state: _State) -> Order:
        """The statements that led to a state."""
        backwards: list[int] = []
        step: _State | None = state
        while step is not None and step.last >= 0:
            backwards.append(self._statements[step.last])
            step = step.before
        return tuple(reversed(backwards))
