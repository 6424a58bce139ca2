"""Checks a plan by running it on paper: `check_plan`.

Independent of the analyses on purpose: it knows no dependences and no live ranges. It walks the program once in
its own order and notes, for each statement, which version of which storage it sees. Then it walks the plan,
where buffers may share storage, and requires that every statement sees the same versions.

A version is the statement that wrote the storage last: `(statement, buffer)`. If every statement sees the
versions it saw before, then by induction every statement computes what it computed before.

    program:  a = f()    b = g(a)    c = h(a)         h sees (f, a)
    plan:     a = f()    c = h(a)    b = g(a), b takes the storage of a
    plan':    a = f()    b = g(a), b takes the storage of a    c = h(a)     rejected: h sees (g, b) where a was
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lowtide.ir import BufferKind, Flag, Output, Phase, Program, Statement
from lowtide.plan.plan import Plan
from lowtide.symbolic import CompareTally, Verdict, compare, render

Version = tuple[str, str]
"""Who wrote a storage last: (statement or "at entry", buffer of the program before planning)."""


class Reason(StrEnum):
    """Why a plan is rejected."""

    NOT_A_PERMUTATION = "the order does not name every statement exactly once"
    PHASES_MIXED = "a backward statement runs before a forward one"
    UNKNOWN_BUFFER = "reuse names a buffer that does not exist"
    CIRCULAR_REUSE = "buffers take over each other's storage in a circle"
    STORAGE_NOT_OURS = "reuse concerns storage that the program does not allocate itself"
    DEVICE_DIFFERS = "a buffer takes over storage of another device"
    SIZE_NOT_PROVED = "a buffer is not proved to fit into the storage it takes over"
    READ_BEFORE_WRITTEN = "a statement uses a value before it comes to be"
    DIM_NOT_KNOWN = "a statement needs a dimension variable before it is known"
    OVERWRITTEN = "a value is used after its storage was taken over"
    WRONG_VERSION = "a statement sees other contents than in program order"
    REUSE_NOT_PERMITTED = "storage is taken over that the kernel does not permit"
    OUTPUT_OVERWRITTEN = "an output does not hold what it holds in program order"
    UNCHECKED = "a statement runs before the check of what it uses"
    FLAGGED_ORDER = "random, collective or side-effect statements change places"


@dataclass(frozen=True, slots=True)
class Accepted:
    """The plan computes what the program computes, for every valuation of the scope."""

    accepted: bool = True


@dataclass(frozen=True, slots=True)
class Rejected:
    """The plan must not be used.

    Attributes:
        reason: Why.
        detail: The same with names.
        statement: Name of the statement at which it shows; empty when none does.
    """

    reason: Reason
    detail: str
    statement: str = ""
    accepted: bool = False


def check_plan(program: Program, plan: Plan, *, tally: CompareTally | None = None) -> Accepted | Rejected:
    """Check that a plan leaves every result as it is.

    Args:
        program: Verified program, before planning.
        plan: Any plan.
        tally: Counts the rules that decided comparisons of sizes, if given.

    Returns:
        Accepted, or Rejected with the first reason found.

    Guarantee: sound for every valuation of the scope, if nobody else holds the tangents whose storage is taken over.
        Conservative where sizes cannot be compared, and where a statement would see other contents that happen to be
        equal.
    Cost: O(accesses), one comparison for each buffer that takes over storage.
    """
    rejected = _check_shape(program, plan) or _check_checks(program, plan) or _check_reuse(program, plan, tally)
    if rejected is not None:
        return rejected
    homes = {buffer: _home(plan, buffer) for buffer in program.buffers}
    before = _Paper(program, {buffer: buffer for buffer in program.buffers})
    for statement in program.statements:
        rejected = before.run(statement)
        if rejected is not None:
            return rejected
    after = _Paper(program, homes)
    for number in plan.order:
        statement = program.statements[number]
        rejected = after.run(statement) or _compare_sight(statement, before, after)
        if rejected is not None:
            return rejected
    return _check_end(program, before, after) or Accepted()


def _check_shape(program: Program, plan: Plan) -> Rejected | None:
    count = len(program.statements)
    if sorted(plan.order) != list(range(count)):
        return Rejected(Reason.NOT_A_PERMUTATION, f"{len(plan.order)} entries for {count} statements")
    backward_started = ""
    last: dict[Flag, int] = {}
    for number in plan.order:
        statement = program.statements[number]
        if statement.phase is Phase.BACKWARD:
            backward_started = backward_started or statement.name
        elif backward_started:
            detail = f"'{backward_started}' is backward and runs before '{statement.name}'"
            return Rejected(Reason.PHASES_MIXED, detail, statement.name)
        for flag in (Flag.RANDOM, Flag.COLLECTIVE, Flag.SIDE_EFFECT):
            if flag in statement.flags:
                if last.get(flag, -1) > number:
                    other = program.statements[last[flag]].name
                    detail = f"'{other}' runs before '{statement.name}'; both are {flag.value}"
                    return Rejected(Reason.FLAGGED_ORDER, detail, statement.name)
                last[flag] = number
    return None


def _check_checks(program: Program, plan: Plan) -> Rejected | None:
    """Whether what raises on wrong sizes or data still runs before what would use them."""
    step_of = {number: step for step, number in enumerate(plan.order)}
    for number, check in enumerate(program.statements):
        if Flag.SIDE_EFFECT not in check.flags or check.defines or check.writes:
            continue
        looked_at = _looked_at(program, check)
        for later in range(number + 1, len(program.statements)):
            statement = program.statements[later]
            if step_of[later] < step_of[number] and looked_at & _looked_at(program, statement):
                detail = f"'{statement.name}' runs before '{check.name}', which checks what it uses"
                return Rejected(Reason.UNCHECKED, detail, statement.name)
    return None


def _looked_at(program: Program, statement: Statement) -> set[str]:
    """Buffers that a statement reads or changes, and the run-time variables that it needs."""
    names = set(statement.reads_dims)
    for name in (*statement.reads, *statement.writes, *statement.defines):
        value = program.values[name]
        for expr in (*value.shape, *value.stride, value.offset, program.buffers[value.buffer].size):
            names |= expr.dims
    names &= program.run_time_dims
    return names | {program.values[name].buffer for name in (*statement.reads, *statement.writes)}


def _check_reuse(program: Program, plan: Plan, tally: CompareTally | None) -> Rejected | None:
    for buffer, taken in plan.reuse.items():
        for name in (buffer, taken):
            if name not in program.buffers:
                return Rejected(Reason.UNKNOWN_BUFFER, f"'{name}', in '{buffer}' takes over '{taken}'")
            kind = program.buffers[name].kind
            # A tangent has no earlier owner in the program: it can give its storage, and take nobody's.
            ours = (BufferKind.INTERMEDIATE, BufferKind.TANGENT) if name == taken else (BufferKind.INTERMEDIATE,)
            if kind not in ours:
                return Rejected(Reason.STORAGE_NOT_OURS, f"buffer '{name}' is of kind {kind.value}")
    for buffer in plan.reuse:
        passed = {buffer}
        following = plan.reuse[buffer]
        while following in plan.reuse and following not in passed:
            passed.add(following)
            following = plan.reuse[following]
        if following in passed:
            return Rejected(Reason.CIRCULAR_REUSE, f"from '{buffer}' through {', '.join(sorted(passed))}")
        smaller, larger = program.buffers[buffer], program.buffers[following]
        if smaller.device != larger.device:
            detail = f"'{buffer}' is on {smaller.device}, '{following}' on {larger.device}"
            return Rejected(Reason.DEVICE_DIFFERS, detail)
        verdict = compare(smaller.size, larger.size, program.scope, tally=tally).verdict
        if verdict not in (Verdict.EQUAL, Verdict.LESS_EQUAL):
            detail = (
                f"'{buffer}' has {render(smaller.size)} bytes, the storage of '{following}' {render(larger.size)} "
                f"({verdict.name})"
            )
            return Rejected(Reason.SIZE_NOT_PROVED, detail)
    return None


def _home(plan: Plan, buffer: str) -> str:
    """Follow a chain of reuse, which is known to end."""
    while buffer in plan.reuse:
        buffer = plan.reuse[buffer]
    return buffer


class _Paper:
    """A program run on paper: which values exist in each storage, and who wrote it last.

    Attributes:
        version: Storage -> version of its contents.
        seen: Statement -> the values it used, each with the version it saw.
    """

    def __init__(self, program: Program, homes: dict[str, str]) -> None:
        self._program = program
        self._homes = homes
        self._alive: dict[str, list[str]] = {}
        self.version: dict[str, Version] = {}
        self.seen: dict[str, tuple[tuple[str, Version], ...]] = {}
        defined = {name for statement in program.statements for name in statement.defines}
        for value in program.values.values():
            if value.name not in defined:
                home = homes[value.buffer]
                self._alive.setdefault(home, []).append(value.name)
                self.version[home] = ("at entry", value.buffer)
        self._known_dims = {binding.dim for binding in program.entry_dims}
        self._known_dims |= {name for name in program.inputs if name in program.scope.ranges}
        # Most programs know every variable at entry; then no statement can need one too early.
        self._all_known = all(dim in self._known_dims for dim in program.scope.ranges)

    def home(self, value: str) -> str:
        """Return the storage under a value."""
        return self._homes[self._program.values[value].buffer]

    def holds(self, value: str) -> bool:
        """Tell whether a value exists and nothing took over its storage."""
        return value in self._alive.get(self.home(value), ())

    def run(self, statement: Statement) -> Rejected | None:
        """Run one statement; return why it cannot run."""
        used = statement.reads + statement.writes
        for name in used:
            if self.holds(name):
                continue
            taker = self.version.get(self.home(name))
            definer = self._program.definer(name)
            existed = definer is None or self._program.statements[definer].name in self.seen
            if taker is None or not existed:
                return Rejected(Reason.READ_BEFORE_WRITTEN, f"'{statement.name}' uses '{name}'", statement.name)
            detail = f"'{statement.name}' uses '{name}', whose storage '{taker[0]}' took over"
            return Rejected(Reason.OVERWRITTEN, detail, statement.name)
        missing = [] if self._all_known else sorted(self._dims_needed(statement) - self._known_dims)
        if missing:
            return Rejected(Reason.DIM_NOT_KNOWN, f"'{statement.name}' needs {', '.join(missing)}", statement.name)
        self.seen[statement.name] = tuple((name, self.version[self.home(name)]) for name in used)
        rejected = self._define(statement)
        if rejected is not None:
            return rejected
        for name in statement.writes:
            self.version[self.home(name)] = (statement.name, self._program.values[name].buffer)
        self._known_dims.update(statement.defines_dims)
        return None

    def _define(self, statement: Statement) -> Rejected | None:
        """Let the values of a statement come to be, each in a fresh storage, a permitted one, or as a view."""
        values = self._program.values
        filled: dict[str, str] = {}
        for buffer in dict.fromkeys(values[name].buffer for name in statement.defines):
            new = [name for name in statement.defines if values[name].buffer == buffer]
            home = self._homes[buffer]
            old = self._alive.get(home, [])
            if not statement.allocates and any(values[name].buffer == buffer for name in old):
                old.extend(new)
                continue
            problem = self._why_not_into(statement, new, home, home != buffer)
            if home in filled:
                problem = f"'{filled[home]}' and '{buffer}' would share it"
            if problem:
                detail = f"'{statement.name}' puts {', '.join(new)} into the storage of '{home}': {problem}"
                return Rejected(Reason.REUSE_NOT_PERMITTED, detail, statement.name)
            filled[home] = buffer
            self._alive[home] = new
            self.version[home] = (statement.name, buffer)
        return None

    def _why_not_into(self, statement: Statement, new: list[str], home: str, planned: bool) -> str:
        """Say why values may not be put into a storage; empty when they may."""
        if home not in self.version:
            return "it does not exist yet" if planned else ""
        if not statement.allocates:
            return "the call itself returns them in storage of its own"
        # The storage as it was when the statement began: an earlier buffer of the same statement may fill it.
        inside = [name for name, _ in self.seen[statement.name] if self.home(name) == home]
        if not inside:
            return "the statement reads nothing in it, so no kernel permits it"
        for name in inside:
            if name in statement.writes:
                return f"the statement also writes '{name}' there"
            for defined in new:
                if (defined, name) not in statement.may_reuse:
                    return f"there is no pair ('{defined}', '{name}')"
        return ""

    def _dims_needed(self, statement: Statement) -> set[str]:
        dims = set(statement.reads_dims)
        exprs = [workspace.size for workspace in statement.workspace if workspace.size is not None]
        for name in statement.reads + statement.writes + statement.defines:
            value = self._program.values[name]
            exprs += [*value.shape, *value.stride, value.offset, self._program.buffers[value.buffer].size]
        for expr in exprs:
            dims |= expr.dims
        return dims if statement.allocates else dims - set(statement.defines_dims)


def _compare_sight(statement: Statement, before: _Paper, after: _Paper) -> Rejected | None:
    for (name, old), (_, new) in zip(before.seen[statement.name], after.seen[statement.name], strict=True):
        if old != new:
            detail = f"'{statement.name}' uses '{name}' as '{new[0]}' left it, in program order as '{old[0]}' left it"
            return Rejected(Reason.WRONG_VERSION, detail, statement.name)
    return None


def _check_end(program: Program, before: _Paper, after: _Paper) -> Rejected | None:
    outputs: tuple[Output, ...] = program.forward_outputs + program.backward_outputs
    for output in outputs:
        name = output.value
        if name is None:
            continue
        if not after.holds(name) or after.version[after.home(name)] != before.version[before.home(name)]:
            taker = after.version[after.home(name)][0]
            return Rejected(Reason.OUTPUT_OVERWRITTEN, f"output '{name}' holds what '{taker}' left there", taker)
    return None
