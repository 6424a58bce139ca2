"""The ordering problem of a program: which statements must stay before which, and what each one allocates and frees.

Statements and buffers are numbers here, so that an order is searched in loops over small integers. What a buffer's
life depends on is the same as in `lowtide.analysis.liveness`; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lowtide.analysis import dependences
from lowtide.ir import BufferKind, Program
from lowtide.symbolic import Expr, Verdict, compare, const

Order: TypeAlias = tuple[int, ...]
"""For each step the index of the statement that runs there."""


@dataclass(frozen=True, slots=True)
class OrderProblem:
    """What an order can change.

    Attributes:
        program: The program.
        predecessors: For each statement, those directly before it.
        successors: For each statement, those directly after it.
        boundary: Statements `[0, boundary)`, half-open, are forward and stay before the others.
        sizes: For each buffer its bytes.
        births: For each statement, the buffers that it allocates.
        touches: For each statement, the buffers that end with their last toucher; those that it allocates included.
        touchers: For each buffer, how many statements touch it; 0 for one that is held to the end.
        early_deaths: Buffers that are freed no sooner than forward ends.
        at_backward: Buffers that come to be when backward starts (tangents).
        at_forward: Buffers that exist from the start (numbers).
        workspace: For each statement the bytes that it needs while it runs, as far as they are known.
        takeovers: For each statement, pairs (allocated buffer, touched buffer of equal size) where the kernel lets
            the first take over the storage of the second.
    """

    program: Program
    predecessors: tuple[tuple[int, ...], ...]
    successors: tuple[tuple[int, ...], ...]
    boundary: int
    sizes: tuple[Expr, ...]
    births: tuple[tuple[int, ...], ...]
    touches: tuple[tuple[int, ...], ...]
    touchers: tuple[int, ...]
    early_deaths: frozenset[int]
    at_backward: tuple[int, ...]
    at_forward: tuple[int, ...]
    workspace: tuple[Expr, ...]
    takeovers: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def program_order(self) -> Order:
        """The order in which the program lists its statements."""
        return tuple(range(len(self.predecessors)))

    def taken_over(self, number: int, left: Sequence[int]) -> list[int]:
        """The buffers that statement `number` need not allocate, given how many touchers each buffer still has."""
        taken: list[int] = []
        used: set[int] = set()
        for new, donor in self.takeovers[number]:
            if left[donor] == 1 and new not in used and donor not in used:
                used |= {new, donor}
                taken.append(new)
        return taken


_DONORS = (BufferKind.INTERMEDIATE, BufferKind.TANGENT)
"""A tangent that is held to the end counts no touchers, so it never dies and never gives its storage."""


def order_problem(program: Program, *, tangents_held: Collection[str] = ()) -> OrderProblem:
    """State the ordering problem of a program.

    Args:
        program: Verified program, in any order and before storage is shared.
        tangents_held: TANGENT buffers that the caller keeps until the end.

    Returns:
        The problem. Forward outputs count as held until the end, as in `memory_profile`.

    Cost: O(accesses), and one comparison per pair of sizes that a kernel may share.
    """
    graph = dependences(program)
    held = set(tangents_held)
    for output in (*program.forward_outputs, *program.backward_outputs):
        if output.value is not None:
            held.add(program.values[output.value].buffer)
    numbers: dict[str, int] = {}
    for name, buffer in program.buffers.items():
        if buffer.kind in (BufferKind.INTERMEDIATE, BufferKind.TANGENT, BufferKind.NUMBER):
            numbers[name] = len(numbers)
    touches: list[tuple[int, ...]] = []
    births: list[tuple[int, ...]] = []
    born: set[int] = set()
    count = [0] * len(numbers)
    for statement in program.statements:
        named = (*statement.reads, *statement.writes, *statement.defines)
        touched = [numbers[b] for b in dict.fromkeys(program.values[n].buffer for n in named) if b in numbers]
        fresh = [
            numbers[b]
            for b in dict.fromkeys(program.values[n].buffer for n in statement.defines)
            if b in numbers and numbers[b] not in born and program.buffers[b].kind is BufferKind.INTERMEDIATE
        ]
        born.update(fresh)
        for buffer in touched:
            count[buffer] += 1
        touches.append(tuple(touched))
        births.append(tuple(fresh))
    names = list(numbers)
    used = {buffer for buffer, touchers in enumerate(count) if touchers or names[buffer] in held}
    for buffer, name in enumerate(names):
        if name in held:
            count[buffer] = 0
    kinds = [program.buffers[name].kind for name in names]
    return OrderProblem(
        program=program,
        predecessors=graph.predecessors,
        successors=graph.successors,
        boundary=graph.boundary,
        sizes=tuple(program.buffers[name].size for name in names),
        births=tuple(births),
        touches=tuple(touches),
        touchers=tuple(count),
        early_deaths=frozenset(b for b, kind in enumerate(kinds) if kind is BufferKind.NUMBER),
        at_backward=tuple(b for b, kind in enumerate(kinds) if kind is BufferKind.TANGENT and b in used),
        at_forward=tuple(b for b, kind in enumerate(kinds) if kind is BufferKind.NUMBER),
        workspace=tuple(
            sum((w.size for w in s.workspace if w.size is not None), start=const(0)) for s in program.statements
        ),
        takeovers=_takeovers(program, numbers, births),
    )


def _takeovers(
    program: Program, numbers: Mapping[str, int], births: Sequence[tuple[int, ...]]
) -> tuple[tuple[tuple[int, int], ...], ...]:
    """The pairs of `OrderProblem.takeovers`: every value of the donor that the statement reads must be permitted."""
    names = list(numbers)
    equal: dict[tuple[Expr, Expr], bool] = {}
    found: list[tuple[tuple[int, int], ...]] = []
    for statement, fresh in zip(program.statements, births, strict=True):
        pairs: list[tuple[int, int]] = []
        if statement.may_reuse and statement.allocates and fresh:
            permitted = frozenset(statement.may_reuse)
            inside: dict[str, list[str]] = {}
            for name in statement.reads:
                inside.setdefault(program.values[name].buffer, []).append(name)
            for new in fresh:
                defined = [n for n in statement.defines if program.values[n].buffer == names[new]]
                size = program.buffers[names[new]].size
                for donor in dict.fromkeys(program.values[read].buffer for _, read in statement.may_reuse):
                    if program.buffers[donor].kind not in _DONORS or numbers[donor] in fresh:
                        continue
                    if any((d, r) not in permitted for r in inside.get(donor, ()) for d in defined):
                        continue
                    key = (size, program.buffers[donor].size)
                    if key not in equal:
                        equal[key] = compare(*key, program.scope).verdict is Verdict.EQUAL
                    if equal[key]:
                        pairs.append((new, numbers[donor]))
        found.append(tuple(pairs))
    return tuple(found)
