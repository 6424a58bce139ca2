"""List scheduling: of the statements that are ready, run the one with the least impact.

Impact is bytes allocated minus bytes freed. With symbolic sizes two impacts need not be comparable; then topology
decides: the statement that leaves fewer buffers alive, then the one whose operands are youngest, since lifetimes are
shorter overall if what has just been made is used first. Source: BladeDISC++ (arXiv 2412.16985), section 2.2.

    ready   impact        compared over the scope
    dot     10996*s1      <- least: run
    add     49152*s1
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from lowtide.schedule.numbers import SizedProblem
from lowtide.schedule.problem import Order, OrderProblem
from lowtide.symbolic import CompareTally, Expr, Verdict, compare
from lowtide.symbolic.terms import Monomial

Impact: TypeAlias = tuple[int, ...]
"""Coefficients of the monomials of a symbolic impact, or one number of bytes."""

Tie: TypeAlias = tuple[int, int, int]
"""What decides where impacts do not: buffers left alive, age of the youngest operand, place in the program."""


@dataclass(slots=True)
class ListTally:
    """How the choices of one list order were made.

    Attributes:
        choices: Steps at which more than one impact was ready.
        by_impact: Those at which one impact was proved least.
        by_topology: Those at which topology had to decide between impacts.
        comparisons: By rule and verdict, each pair of impacts once.
    """

    choices: int = 0
    by_impact: int = 0
    by_topology: int = 0
    comparisons: CompareTally = field(default_factory=CompareTally)


def symbolic_order(problem: OrderProblem, *, topology: bool = True, tally: ListTally | None = None) -> Order:
    """Order by symbolic impact, for every valuation of the scope at once.

    Args:
        problem: The problem.
        topology: Whether topology decides where impacts cannot be compared; otherwise the program's order does.
        tally: Counts how choices were made.

    Cost: O(accesses x log + steps x distinct impacts), with one comparison per distinct pair of impacts.
    """
    columns: dict[Monomial, int] = {}
    for size in problem.sizes:
        for monomial in size.terms:
            columns.setdefault(monomial, len(columns))
    rows = tuple(_row(size, columns) for size in problem.sizes)
    tally = tally or ListTally()
    verdicts: dict[Impact, int] = {}

    def order_of(left: Impact, right: Impact) -> int:
        difference = tuple(a - b for a, b in zip(left, right, strict=True))
        if difference not in verdicts:
            terms = {m: c for m, c in zip(columns, difference, strict=True) if c}
            found = compare(Expr(terms), 0, problem.program.scope, tally=tally.comparisons)
            verdicts[difference] = -1 if found.is_at_most else 1 if found.verdict is Verdict.GREATER_EQUAL else 0
        return verdicts[difference]

    return _Lists(problem, rows, order_of, topology, tally).order()


def topology_order(problem: OrderProblem) -> Order:
    """Order by topology alone: no size is looked at."""
    nothing: Impact = ()
    return _Lists(problem, tuple(nothing for _ in problem.sizes), lambda _a, _b: 0, True, ListTally()).order()


def sized_order(sized: SizedProblem) -> Order:
    """Order by impact at one valuation."""
    rows = tuple((size,) for size in sized.sizes)
    return _Lists(sized.problem, rows, lambda a, b: -1 if a < b else 1, True, ListTally()).order()


def _row(size: Expr, columns: dict[Monomial, int]) -> Impact:
    row = [0] * len(columns)
    for monomial, coefficient in size.terms.items():
        row[columns[monomial]] = coefficient
    return tuple(row)


class _Lists:
    """Ready statements in one list per impact, each a heap by tie."""

    def __init__(
        self,
        problem: OrderProblem,
        rows: tuple[Impact, ...],
        compare_impacts: Callable[[Impact, Impact], int],
        topology: bool,
        tally: ListTally,
    ) -> None:
        self._problem = problem
        self._rows = rows
        self._compare = compare_impacts
        self._topology = topology
        self._tally = tally
        self._left = list(problem.touchers)
        self._waits = [len(p) for p in problem.predecessors]
        self._ran_at = [-1] * len(self._waits)
        self._lists: dict[Impact, list[tuple[Tie, int]]] = {}
        self._listed: dict[int, tuple[Impact, Tie]] = {}
        # For each buffer the statements that touch it, to find the last one.
        self._touching: list[set[int]] = [set() for _ in rows]
        for number, touched in enumerate(problem.touches):
            for buffer in touched:
                self._touching[buffer].add(number)

    def order(self) -> Order:
        found: list[int] = []
        for phase in (range(self._problem.boundary), range(self._problem.boundary, len(self._waits))):
            self._lists, self._listed = {}, {}
            for number in phase:
                if self._waits[number] == 0:
                    self._list(number)
            for _ in phase:
                number = self._pick()
                self._ran_at[number] = len(found)
                found.append(number)
                self._run(number, phase)
        return tuple(found)

    def _run(self, number: int, phase: range) -> None:
        del self._listed[number]
        changed: set[int] = set()
        for buffer in self._problem.touches[number]:
            self._left[buffer] -= 1
            self._touching[buffer].discard(number)
            if self._left[buffer] == 1:
                changed |= self._touching[buffer]
        for following in self._problem.successors[number]:
            self._waits[following] -= 1
            if self._waits[following] == 0 and following in phase:
                self._list(following)
        for other in changed:
            if other in self._listed:
                self._list(other)

    def _list(self, number: int) -> None:
        """Put a ready statement into the list of its present impact; an older entry of it is skipped when met."""
        problem, rows = self._problem, self._rows
        deaths = [b for b in problem.touches[number] if self._left[b] == 1]
        births = problem.births[number]
        impact = _sum([rows[b] for b in births], [rows[b] for b in deaths], len(rows[0]) if rows else 0)
        if self._topology:
            youngest = max((self._ran_at[p] for p in problem.predecessors[number]), default=-1)
            tie = (len(births) - len(deaths), -youngest, number)
        else:
            tie = (0, 0, number)
        self._listed[number] = (impact, tie)
        heapq.heappush(self._lists.setdefault(impact, []), (tie, number))

    def _pick(self) -> int:
        best: Impact | None = None
        undecided = False
        rivals = 0
        for impact in list(self._lists):
            if not self._clean(impact):
                continue
            rivals += 1
            if best is None:
                best = impact
                continue
            order = self._compare(impact, best)
            if order == 0:
                undecided = True
                order = -1 if self._lists[impact][0][0] < self._lists[best][0][0] else 1
            if order < 0:
                best = impact
        assert best is not None, "bug: statements are left and none is ready"
        if rivals > 1:
            self._tally.choices += 1
            self._tally.by_topology += undecided
            self._tally.by_impact += not undecided
        return heapq.heappop(self._lists[best])[1]

    def _clean(self, impact: Impact) -> bool:
        """Drop entries that are no longer true; tell whether the list holds any other."""
        entries = self._lists[impact]
        while entries and self._listed.get(entries[0][1]) != (impact, entries[0][0]):
            heapq.heappop(entries)
        if not entries:
            del self._lists[impact]
        return bool(entries)


def _sum(plus: list[Impact], minus: list[Impact], length: int) -> Impact:
    if len(plus) == 1 and not minus:
        return plus[0]
    total = [0] * length
    for row in plus:
        for column, coefficient in enumerate(row):
            total[column] += coefficient
    for row in minus:
        for column, coefficient in enumerate(row):
            total[column] -= coefficient
    return tuple(total)
