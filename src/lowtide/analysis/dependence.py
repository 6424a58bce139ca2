"""Which statements must stay before which: `dependences`.

Accesses are told apart by buffer, not by value, so views and in-place writes need no special care:

    statement            reads   writes   what must stay in order
    x = f(a)                     x's      -
    v = view(x)          x's              READ_AFTER_WRITE from f
    add_(x)              x's     x's      READ_AFTER_WRITE from f, WRITE_AFTER_READ from view
    y = g(v)             x's     y's      READ_AFTER_WRITE from add_, USE_OF_VIEW from view

Beside these: a statement comes after the one that makes a variable it needs known; statements with the flag
RANDOM (and likewise COLLECTIVE, SIDE_EFFECT) keep their order among themselves; a check (a SIDE_EFFECT that neither
defines nor writes) stays before whatever needs the run-time sizes or reads the tensors it looks at; and every forward
statement stays before every backward one. The last rule is a boundary, not edges: it would take
forward x backward many.

Not handled: inputs that share storage with each other count as separate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lowtide.analysis.order import resolve_order
from lowtide.ir import BufferKind, Flag, Phase, Program, Statement, needed_dims


class DependenceKind(StrEnum):
    """Why two statements keep their order."""

    READ_AFTER_WRITE = "read after write"
    USE_OF_VIEW = "use of a view after the statement that makes it"
    WRITE_AFTER_READ = "write after read"
    WRITE_AFTER_WRITE = "write after write"
    RUN_TIME_DIM = "run-time dimension variable"
    RANDOM = "random numbers in order"
    COLLECTIVE = "collectives in order"
    SIDE_EFFECT = "side effects in order"
    CHECKED = "use of what an earlier statement checks"


_KINDS_OF_FLAGS = {
    Flag.RANDOM: DependenceKind.RANDOM,
    Flag.COLLECTIVE: DependenceKind.COLLECTIVE,
    Flag.SIDE_EFFECT: DependenceKind.SIDE_EFFECT,
}


@dataclass(frozen=True, slots=True)
class Dependence:
    """Statement `before` must run before statement `after`.

    Attributes:
        before: Index of the earlier statement.
        after: Index of the later statement.
        kind: Why.
        subject: The buffer or the dimension variable concerned; empty for flags.
    """

    before: int
    after: int
    kind: DependenceKind
    subject: str


@dataclass(frozen=True, slots=True)
class DependenceGraph:
    """What every order of a program must respect.

    Attributes:
        edges: All dependences, by `after`. Two statements may have several.
        predecessors: For each statement, the indices of those directly before it, ascending, each once.
        successors: For each statement, the indices of those directly after it, ascending, each once.
        boundary: Number of forward statements; statements `[0, boundary)` (half-open) are forward. They stay
            before the others although no edge says so.
    """

    edges: tuple[Dependence, ...]
    predecessors: tuple[tuple[int, ...], ...]
    successors: tuple[tuple[int, ...], ...]
    boundary: int

    def is_order(self, order: Sequence[int]) -> bool:
        """Tell whether `order` is a permutation that respects every edge and the boundary. Total."""
        count = len(self.predecessors)
        if len(order) != count or set(order) != set(range(count)):
            return False
        step_of = [0] * count
        for step, number in enumerate(order):
            step_of[number] = step
        if any(number >= self.boundary for number in order[: self.boundary]):
            return False
        return all(step_of[edge.before] < step_of[edge.after] for edge in self.edges)


def dependences(program: Program) -> DependenceGraph:
    """Find what every order of `program` must respect.

    Args:
        program: Verified program.

    Returns:
        The graph of direct dependences. Exact for values that occupy their whole buffer; conservative for
        windows of one buffer that do not overlap, which count as overlapping.

    Cost: O(accesses) edges, near linear time.
    """
    finder = _Finder(program)
    for number, statement in enumerate(program.statements):
        finder.visit(number, statement)
    return finder.graph()


class _Finder:
    """Walks the statements, keeping for each buffer who wrote it last and who read it since."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._run_time_dims = program.run_time_dims
        self._edges: list[Dependence] = []
        self._last_write: dict[str, int] = {}
        self._reads_since: dict[str, list[int]] = {}
        self._last_flagged: dict[Flag, int] = {}
        self._definer_of_dim: dict[str, int] = {}
        self._view_maker: dict[str, int] = {}
        self._check_of: dict[str, int] = {}  # the latest check that looked at a buffer or a run-time variable
        self._started = {
            buffer.name for buffer in program.buffers.values() if buffer.kind is not BufferKind.INTERMEDIATE
        }

    def visit(self, number: int, statement: Statement) -> None:
        values = self._program.values
        written = dict.fromkeys(values[name].buffer for name in statement.writes)
        read = dict.fromkeys(values[name].buffer for name in statement.reads)
        for name in statement.defines:
            buffer = values[name].buffer
            if statement.allocates or buffer not in self._started:
                written[buffer] = None
            else:
                read[buffer] = None
                self._view_maker[name] = number
        # A value changed in place is read as well; a value that comes to be is not.
        for name in statement.writes:
            read[values[name].buffer] = None
        for name in statement.reads + statement.writes:
            # Nothing is written where a view is made, so the buffer does not show this one.
            maker = self._view_maker.get(name)
            if maker is not None:
                buffer = values[name].buffer
                self._edges.append(Dependence(maker, number, DependenceKind.USE_OF_VIEW, buffer))
        for buffer in read:
            self._read(number, buffer)
        for buffer in written:
            self._write(number, buffer)
        self._started.update(read)
        self._started.update(written)
        needed = (
            needed_dims(self._program, statement) & self._run_time_dims if self._run_time_dims else frozenset[str]()
        )
        self._need_dims(number, statement, needed)
        self._stay_checked(number, statement, (*needed, *read))
        for flag, kind in _KINDS_OF_FLAGS.items():
            if flag in statement.flags:
                if flag in self._last_flagged:
                    self._edges.append(Dependence(self._last_flagged[flag], number, kind, ""))
                self._last_flagged[flag] = number

    def graph(self) -> DependenceGraph:
        count = len(self._program.statements)
        before: list[set[int]] = [set() for _ in range(count)]
        after: list[set[int]] = [set() for _ in range(count)]
        for edge in self._edges:
            before[edge.after].add(edge.before)
            after[edge.before].add(edge.after)
        return DependenceGraph(
            edges=tuple(self._edges),
            predecessors=tuple(tuple(sorted(numbers)) for numbers in before),
            successors=tuple(tuple(sorted(numbers)) for numbers in after),
            boundary=sum(statement.phase is Phase.FORWARD for statement in self._program.statements),
        )

    def _read(self, number: int, buffer: str) -> None:
        writer = self._last_write.get(buffer)
        if writer is not None:
            self._edges.append(Dependence(writer, number, DependenceKind.READ_AFTER_WRITE, buffer))
        self._reads_since.setdefault(buffer, []).append(number)

    def _write(self, number: int, buffer: str) -> None:
        for reader in self._reads_since.pop(buffer, ()):
            if reader != number:
                self._edges.append(Dependence(reader, number, DependenceKind.WRITE_AFTER_READ, buffer))
        writer = self._last_write.get(buffer)
        if writer is not None:
            self._edges.append(Dependence(writer, number, DependenceKind.WRITE_AFTER_WRITE, buffer))
        self._last_write[buffer] = number

    def _stay_checked(self, number: int, statement: Statement, subjects: Sequence[str]) -> None:
        checks = {self._check_of[subject]: subject for subject in sorted(subjects) if subject in self._check_of}
        self._edges += [Dependence(check, number, DependenceKind.CHECKED, subject) for check, subject in checks.items()]
        if Flag.SIDE_EFFECT in statement.flags and not statement.defines and not statement.writes:
            # Checks keep their order among themselves, so the latest one stands for all.
            self._check_of.update(dict.fromkeys(subjects, number))

    def _need_dims(self, number: int, statement: Statement, needed: frozenset[str]) -> None:
        for dim in sorted(needed):
            definer = self._definer_of_dim.get(dim)
            if definer is not None:
                self._edges.append(Dependence(definer, number, DependenceKind.RUN_TIME_DIM, dim))
        for dim in statement.defines_dims:
            self._definer_of_dim[dim] = number


def is_valid_order(program: Program, order: Sequence[int]) -> bool:
    """Tell whether `order` respects every dependence of `program`.

    Raises:
        OrderError: If `order` is not a permutation of the statement indices.

    Cost: as `dependences`; keep the graph and use `is_order` for many orders of one program.
    """
    return dependences(program).is_order(resolve_order(program, order))
