"""Bytes live during each step of an order, as expressions and for a valuation: `memory_profile`.

The footprint of a step is the sum of the sizes of the buffers live in it plus the workspace of its
statement. All footprints together are one integer matrix: a row for each step, a column for each
monomial that occurs in a size. A profile of n steps is built by one cumulative sum, and evaluated by one
product with the values of the monomials.

               batch*seq^2   batch*seq
    step 0              0        4096
    step 1             48        8192
    step 2             48        4096

A workspace of unknown size is not in the numbers, unless its bytes are given; `unknown_workspace` names it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lowtide.analysis.liveness import LiveRange, live_ranges
from lowtide.analysis.order import resolve_order
from lowtide.analysis.peak_expression import peak_of_rows, table_of_rows, undominated_rows
from lowtide.analysis.peak_table import PeakTable
from lowtide.errors import LowtideError
from lowtide.ir import Program
from lowtide.symbolic import BatchEvaluator, Expr, compile_batch, const, evaluate
from lowtide.symbolic.terms import Monomial

Integers: TypeAlias = npt.NDArray[np.int64]
_LIMIT = 2**63


class FootprintOverflowError(LowtideError):
    """A footprint that does not fit into 63 bits."""


@dataclass(frozen=True, slots=True)
class LiveBytes:
    """A buffer or workspace that is counted in some step.

    Attributes:
        name: The buffer, or the workspace.
        size_bytes: Its size at the valuation.
    """

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class PeakFact:
    """The predicted peak at one valuation, and what makes it up.

    Attributes:
        bytes: The largest footprint. Exact, but for workspace of unknown size.
        step: The first step that has it; -1 for a program without statements.
        statement: Name of the statement that runs in that step; empty for a program without statements.
        buffers: The buffers live in that step, largest first.
        workspace: The workspace of that step whose size is known or was given, largest first.
        measured: Workspaces of unknown size, of any step, whose bytes were given.
        left_out: Workspaces of unknown size, of any step, whose bytes were not; they come on top.
    """

    bytes: int
    step: int
    statement: str
    buffers: tuple[LiveBytes, ...]
    workspace: tuple[LiveBytes, ...]
    measured: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Cache:
    """What a profile computes at most once."""

    evaluators: list[BatchEvaluator] = field(default_factory=list[BatchEvaluator])
    peaks: list[Expr] = field(default_factory=list[Expr])


@dataclass(frozen=True, slots=True)
class MemoryProfile:
    """The footprints of all steps of one order.

    Attributes:
        program: The program.
        order: For each step the index of its statement.
        ranges: Live range of each counted buffer, half-open, in steps.
        unknown_workspace: (statement, workspace) names of workspace whose size is unknown; not counted.
    """

    program: Program
    order: tuple[int, ...]
    ranges: Mapping[str, LiveRange]
    unknown_workspace: tuple[tuple[str, str], ...]
    _monomials: tuple[Monomial, ...] = field(repr=False)
    _rows: Integers = field(repr=False, compare=False)
    _cache: _Cache = field(default_factory=_Cache, repr=False, compare=False)

    def footprint(self, step: int) -> Expr:
        """Return the bytes live during `step`, as an expression. Exact."""
        return self._expr(self._rows[step])

    @property
    def footprints(self) -> tuple[Expr, ...]:
        """The footprints of all steps, in bytes. Exact. Cost: O(steps x terms), at each access."""
        return tuple(self._expr(row) for row in self._rows)

    def at(self, valuation: Mapping[str, int], measured: Mapping[tuple[str, str], int] | None = None) -> Integers:
        """Return the footprints of all steps at one valuation.

        Args:
            valuation: An integer for each dimension variable that occurs in a size.
            measured: Bytes of workspace of unknown size, by its entry in `unknown_workspace`; counted where given.

        Returns:
            Bytes for each step, shape (steps,), int64. Exact.

        Raises:
            FootprintOverflowError: If a footprint needs more than 63 bits.

        Cost: one evaluation of each distinct monomial and one matrix product; no loop over the steps.
        """
        footprints = self._known_at(valuation)
        if measured:
            steps = {self.program.statements[number].name: step for step, number in enumerate(self.order)}
            footprints = footprints.copy()
            for (statement, _), size in measured.items():
                footprints[steps[statement]] += size
        return footprints

    def _known_at(self, valuation: Mapping[str, int]) -> Integers:
        if not self._cache.evaluators:
            self._cache.evaluators.append(compile_batch([Expr({monomial: 1}) for monomial in self._monomials]))
        values = self._cache.evaluators[0].integers_at(valuation)
        if not values or not len(self._rows):
            return np.zeros(len(self._rows), dtype=np.int64)
        largest: list[int] = [int(number) for number in np.abs(self._rows).max(axis=0)]
        # Within this bound no partial sum of any row can overflow, so machine integers are exact.
        if sum(bound * abs(value) for bound, value in zip(largest, values, strict=True)) < _LIMIT:
            return np.asarray(self._rows.astype(np.int64) @ np.array(values, dtype=np.int64))
        exact = self._rows.astype(object) @ np.array(values, dtype=object)
        if max(exact) >= _LIMIT or min(exact) < -_LIMIT:
            raise FootprintOverflowError(
                f"cannot give the footprints of program '{self.program.name}' as 64-bit integers",
                found=f"a footprint of {max(exact)} bytes",
                where=f"valuation {dict(valuation)}",
                fix="use footprint(step) with evaluate, which knows no limit, or smaller sizes",
            )
        return exact.astype(np.int64)

    @property
    def peak(self) -> Expr:
        """The predicted peak in bytes, as an expression: equal to the largest footprint at every valuation.

        It is the `max` of the footprints that no other was proved to dominate over the program's scope.

        Guarantee: exact at each valuation that the scope admits.
        Cost: numpy over distinct footprints, then comparisons between the few that are left. Kept.
        """
        if not self._cache.peaks:
            self._cache.peaks.append(peak_of_rows(self._monomials, self._rows, self.program.scope))
        return self._cache.peaks[0]

    @property
    def peak_table(self) -> PeakTable:
        """The predicted peak as a table: what `peak` is, cheaper to make and to evaluate. Exact. Not kept."""
        return table_of_rows(self._monomials, self._rows, self.program.scope)

    def footprint_table(self, step: int) -> PeakTable:
        """The footprint of one step as a table. Exact."""
        used = [column for column, coefficient in enumerate(self._rows[step].tolist()) if coefficient]
        monomials = tuple(Expr({self._monomials[column]: 1}) for column in used)
        return PeakTable(monomials, (tuple(self._rows[step][used].tolist()),))

    @property
    def peak_steps(self) -> tuple[int, ...]:
        """Steps of which, at every valuation of the scope, at least one has the largest footprint. Exact."""
        return undominated_rows(self._monomials, self._rows, self.program.scope)

    def peak_at(self, valuation: Mapping[str, int], measured: Mapping[tuple[str, str], int] | None = None) -> PeakFact:
        """Find the predicted peak at one valuation, and what is live there.

        Args:
            valuation: As for `at`.
            measured: As for `at`.

        Raises:
            FootprintOverflowError: If a footprint needs more than 63 bits.

        Cost: that of `at`, plus one evaluation for each buffer live at the peak.
        """
        footprints = self.at(valuation, measured)
        if not len(footprints):
            return PeakFact(0, -1, "", (), ())
        step = int(footprints.argmax())
        statement = self.program.statements[self.order[step]]
        buffers = [
            LiveBytes(name, evaluate(self.program.buffers[name].size, valuation))
            for name, live in self.ranges.items()
            if step in live
        ]
        workspace = [
            LiveBytes(known.name, evaluate(known.size, valuation))
            for known in statement.workspace
            if known.size is not None
        ]
        given = measured or {}
        workspace += [LiveBytes(name, size) for (at, name), size in given.items() if at == statement.name]
        return PeakFact(
            bytes=int(footprints[step]),
            step=step,
            statement=statement.name,
            buffers=tuple(sorted(buffers, key=_largest_first)),
            workspace=tuple(sorted(workspace, key=_largest_first)),
            measured=tuple(dict.fromkeys(name for _, name in given)),
            left_out=tuple(dict.fromkeys(w for at, w in self.unknown_workspace if (at, w) not in given)),
        )

    def _expr(self, row: Integers) -> Expr:
        terms = zip(self._monomials, row.tolist(), strict=True)
        return Expr({monomial: coefficient for monomial, coefficient in terms if coefficient})


def _largest_first(counted: LiveBytes) -> tuple[int, str]:
    return -counted.size_bytes, counted.name


def memory_profile(
    program: Program,
    order: Sequence[int] | None = None,
    *,
    outputs_held: bool | Collection[str] = True,
    tangents_held: Collection[str] = (),
    counted_elsewhere: Collection[str] = (),
) -> MemoryProfile:
    """Count the bytes live during each step.

    Args:
        program: Verified program.
        order: For each step the index of its statement; program order by default. It must respect the
            dependences.
        outputs_held: See `live_ranges`.
        tangents_held: See `live_ranges`.
        counted_elsewhere: See `live_ranges`.

    Returns:
        The profile. Exact, but for workspace of unknown size, which it names.

    Raises:
        OrderError: If `order` is not a permutation.

    Cost: O(accesses + steps x distinct monomials).
    """
    steps = resolve_order(program, order)
    ranges = live_ranges(
        program,
        steps,
        outputs_held=outputs_held,
        tangents_held=tangents_held,
        counted_elsewhere=counted_elsewhere,
    )
    columns: dict[Monomial, int] = {}
    changes = _Changes(columns)
    for name, live in ranges.items():
        if live.start < live.stop:
            changes.add(live.start, live.stop, program.buffers[name].size)
    unknown: list[tuple[str, str]] = []
    for step, number in enumerate(steps):
        for workspace in program.statements[number].workspace:
            if workspace.size is None:
                unknown.append((program.statements[number].name, workspace.name))
            else:
                changes.add(step, step + 1, workspace.size)
    return MemoryProfile(
        program=program,
        order=steps,
        ranges=ranges,
        unknown_workspace=tuple(unknown),
        _monomials=tuple(columns),
        _rows=changes.footprints(len(steps)),
    )


class _Changes:
    """Additions and subtractions of coefficients at steps, summed up at the end."""

    def __init__(self, columns: dict[Monomial, int]) -> None:
        self._columns = columns
        self._steps: list[int] = []
        self._places: list[int] = []
        self._amounts: list[int] = []
        self._total = 0

    def add(self, start: int, stop: int, size: Expr) -> None:
        """Count `size` in the half-open range of steps `[start, stop)`."""
        columns = self._columns
        for monomial, coefficient in size.terms.items():
            column = columns.setdefault(monomial, len(columns))
            self._steps += (start, stop)
            self._places += (column, column)
            self._amounts += (coefficient, -coefficient)
            self._total += abs(coefficient)

    def footprints(self, steps: int) -> Integers:
        """Return the coefficients of each step: shape (steps, columns)."""
        # Python integers take over where machine integers could overflow.
        dtype = np.int64 if self._total < _LIMIT else object
        changes = np.zeros((steps + 1, len(self._columns)), dtype=dtype)
        np.add.at(changes, (self._steps, self._places), np.array(self._amounts, dtype=dtype))
        return np.cumsum(changes, axis=0)[:steps]


def peak(program: Program, order: Sequence[int] | None = None, *, outputs_held: bool = True) -> Expr:
    """Return the predicted peak in bytes as an expression; see `MemoryProfile.peak`."""
    return memory_profile(program, order, outputs_held=outputs_held).peak if program.statements else const(0)
