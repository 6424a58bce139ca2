"""A brute-force interpreter: it runs programs on storage that really holds something.

Contents are hashes of what was computed from what; nothing here knows about dependences, versions or live
ranges. A plan is wrong when, at some valuation, a statement sees contents, or an output or input ends with
contents, that differ from those in program order.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from lowtide.ir import BufferKind, Flag, Phase, Program, Statement
from lowtide.symbolic import evaluate


class BrokenError(Exception):
    """The program cannot even run in this order."""


@dataclass
class Storage:
    contents: int
    size: int
    home: str


@dataclass
class Machine:
    program: Program
    reuse: Mapping[str, str]
    valuation: Mapping[str, int]
    values: dict[str, Storage] = field(default_factory=dict)
    storages: dict[str, Storage] = field(default_factory=dict)
    dims: set[str] = field(default_factory=set)
    drawn: int = 0
    log: list[object] = field(default_factory=list)
    seen: dict[str, object] = field(default_factory=dict)

    def size(self, buffer: str) -> int:
        return evaluate(self.program.buffers[buffer].size, self.valuation)


def observe(
    program: Program,
    order: Sequence[int],
    reuse: Mapping[str, str],
    valuation: Mapping[str, int],
    unseen: Container[str] = (),
) -> object:
    """Run and return everything that can be seen; nobody looks into the buffers of `unseen` at the end."""
    machine = Machine(program, reuse, valuation)
    machine.dims = {binding.dim for binding in program.entry_dims}
    defined = {name for statement in program.statements for name in statement.defines}
    for value in program.values.values():
        if value.name not in defined:
            storage = machine.storages.setdefault(value.buffer, Storage(hash(value.buffer), 10**9, value.buffer))
            machine.values[value.name] = storage
    phase = Phase.FORWARD
    for number in order:
        statement = program.statements[number]
        if phase is Phase.BACKWARD and statement.phase is Phase.FORWARD:
            raise BrokenError("phases mixed")
        phase = statement.phase
        _run(machine, statement)
    outputs = [
        machine.values[output.value].contents
        for output in program.forward_outputs + program.backward_outputs
        if output.value is not None
    ]
    inputs = [
        machine.storages[buffer].contents
        for buffer in program.buffers
        if _is_input(program, buffer) and buffer not in unseen
    ]
    return machine.seen, outputs, inputs, machine.log


def is_wrong(program: Program, order: Sequence[int], reuse: Mapping[str, str], high: int) -> bool:
    """Try every valuation with variables up to `high`."""
    tangents = {name for name, buffer in program.buffers.items() if buffer.kind is BufferKind.TANGENT}
    taken = tangents.intersection(reuse.values())
    for entry in [*reuse, *(set(reuse.values()) - taken)]:
        if program.buffers[entry].kind is not BufferKind.INTERMEDIATE:
            return True  # a plan may not speak of storage that is not ours
    names = list(program.scope.ranges)
    lows = [program.scope.ranges[name][0] for name in names]
    for numbers in product(*(range(low, high + 1) for low in lows)):
        valuation = dict(zip(names, numbers, strict=True))
        expected = observe(program, range(len(program.statements)), {}, valuation, taken)
        try:
            if observe(program, order, reuse, valuation, taken) != expected:
                return True
        except BrokenError:
            return True
    return False


def _is_input(program: Program, buffer: str) -> bool:
    values = program.values_in(buffer)
    return program.buffers[buffer].kind is not BufferKind.INTERMEDIATE and bool(values)


def _run(machine: Machine, statement: Statement) -> None:
    program = machine.program
    for dim in _dims(program, statement):
        if dim not in machine.dims:
            raise BrokenError(f"{statement.name} needs {dim}")
    used = statement.reads + statement.writes
    for name in used:
        if name not in machine.values:
            raise BrokenError(f"{statement.name} needs {name}")
    sight = tuple(machine.values[name].contents for name in used)
    if Flag.RANDOM in statement.flags:
        machine.drawn += 1
        sight += (machine.drawn,)
    machine.seen[statement.name] = sight
    for flag in (Flag.COLLECTIVE, Flag.SIDE_EFFECT):
        if flag in statement.flags:
            machine.log.append((flag, statement.name, sight))
    machine.log.sort(key=lambda entry: entry[0])  # each kind keeps its own order
    poisoned: set[str] = set()
    fresh: dict[str, Storage] = {}
    for name in statement.defines:
        buffer = program.values[name].buffer
        bases = [other for other in used if program.values[other].buffer == buffer]
        if not statement.allocates and bases:
            machine.values[name] = machine.values[bases[0]]
        elif buffer in fresh:
            _check_pairs(machine, statement, name, used, fresh[buffer], poisoned)
            machine.values[name] = fresh[buffer]
        else:
            fresh[buffer] = _place(machine, statement, name, used, fresh, poisoned)
            machine.values[name] = fresh[buffer]
    for buffer, storage in fresh.items():
        storage.contents = hash((statement.name, buffer, sight))
    for name in statement.writes:
        machine.values[name].contents = hash((statement.name, "wrote", program.values[name].buffer, sight))
    for name in statement.defines:
        if name in poisoned:
            machine.values[name].contents = hash(("garbage", statement.name))
            machine.seen[statement.name] = "garbage"
    machine.dims |= set(statement.defines_dims)


def _place(
    machine: Machine, statement: Statement, name: str, used: Sequence[str], fresh: Mapping[str, Storage],
    poisoned: set[str],
) -> Storage:  # fmt: skip
    """Find the storage that a new value is put into; poison the value where that destroys something."""
    buffer = machine.program.values[name].buffer
    home = buffer
    passed: set[str] = set()
    while home in machine.reuse:
        if home in passed:
            raise BrokenError("circle")
        passed.add(home)
        home = machine.reuse[home]
    planned = home != buffer
    storage = machine.storages.get(home)
    if storage is None:
        if planned:
            raise BrokenError(f"{home} is not there to be taken over")
        storage = machine.storages[home] = Storage(0, machine.size(home), home)
        return storage
    if not statement.allocates or storage in fresh.values() or machine.size(buffer) > storage.size:
        poisoned.add(name)
    _check_pairs(machine, statement, name, used, storage, poisoned)
    return storage


def _check_pairs(
    machine: Machine, statement: Statement, name: str, used: Sequence[str], storage: Storage, poisoned: set[str]
) -> None:
    """Poison a value that overwrites an operand without permission, or takes over what merely lies there."""
    inside = [other for other in used if machine.values[other] is storage]
    if storage.contents == 0:
        return  # allocated by this very statement
    if not inside or any(other in statement.writes or (name, other) not in statement.may_reuse for other in inside):
        poisoned.add(name)


def _dims(program: Program, statement: Statement) -> set[str]:
    dims = set(statement.reads_dims)
    exprs = [workspace.size for workspace in statement.workspace if workspace.size is not None]
    for name in statement.reads + statement.writes + statement.defines:
        value = program.values[name]
        exprs += [*value.shape, program.buffers[value.buffer].size]
    for expr in exprs:
        dims |= expr.dims
    return dims - set(statement.defines_dims)
