"""Verifies the flow of values: one walk over the statements that keeps which values exist where.

statement      reads   defines      values that exist in buffer 0
x = f(a)       a       x in 0       x
v = view(x)    x       v in 0       x, v             (allocates=False: a view)
y = g(x)       x       y in 0       y                (may_reuse y <- x: y takes over, x and v are gone)
z = h(v)       v       ...          error: v is used after its storage was taken over
"""

from __future__ import annotations

import re

from lowtide.ir.defects import Defect, VerificationError
from lowtide.ir.program import BufferKind, Output, Phase, Program, Statement, Value

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def verify_flow(program: Program) -> None:
    """Check definitions before uses, phases, storage that is taken over, run-time variables, outputs.

    Raises:
        VerificationError: At the first defect, in program order.
    """
    walk = _Walk(program)
    for number, statement in enumerate(program.statements):
        walk.enter(number, statement)
    walk.finish()


class _Walk:
    """What exists at one point of the program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._occupants: dict[str, list[str]] = {}
        self._exists: set[str] = set()
        self._taken_by: dict[str, int] = {}
        self._known_dims = {binding.dim for binding in program.entry_dims}
        self._known_dims |= {name for name in program.inputs if name in program.scope.ranges}
        # Where every variable is known at entry, and the scope knows every variable, no statement can need more.
        self._all_known = all(dim in self._known_dims for dim in program.scope.ranges)
        self._in_backward = False
        self._value_dims: dict[str, frozenset[str]] = {}
        for name in program.inputs:
            if name in program.values:
                self._add(program.values[name])
        for value in program.values.values():
            constant = program.buffers[value.buffer].kind is BufferKind.CONSTANT
            if constant and value.name not in self._exists and program.definer(value.name) is None:
                self._add(value)

    def enter(self, number: int, statement: Statement) -> None:
        self._enter_phase(number, statement)
        for name in statement.reads:
            self._use(number, name, Defect.NOT_DEFINED)
        for name in statement.writes:
            self._use(number, name, Defect.WRITE_TO_DEAD)
        self._check_pairs(number, statement)
        self._check_dims(number, statement)
        self._define(number, statement)

    def finish(self) -> None:
        program = self._program
        for output in program.forward_outputs:
            self._check_output(output, Phase.FORWARD)
        if not self._in_backward:
            self._exists.update(program.tangents)
        for output in program.backward_outputs:
            self._check_output(output, Phase.BACKWARD)

    def _add(self, value: Value) -> None:
        self._occupants.setdefault(value.buffer, []).append(value.name)
        self._exists.add(value.name)

    def _fail(self, defect: Defect, number: int | None, subject: str, found: str, fix: str) -> VerificationError:
        return VerificationError(defect, self._program, subject=subject, found=found, fix=fix, statement=number)

    def _enter_phase(self, number: int, statement: Statement) -> None:
        if statement.phase is Phase.BACKWARD:
            if not self._in_backward:
                self._in_backward = True
                for name in self._program.tangents:
                    self._add(self._program.values[name])
        elif self._in_backward:
            raise self._fail(
                Defect.PHASES_MIXED,
                number,
                f"statement '{statement.name}'",
                f"'{statement.name}' is forward and comes after the first backward statement",
                "put every forward statement before the first backward one",
            )

    def _use(self, number: int, name: str, defect: Defect) -> None:
        if name in self._exists:
            return
        program = self._program
        statement = program.statements[number]
        if name in self._taken_by:
            taker = program.statements[self._taken_by[name]].name
            raise self._fail(
                Defect.OVERWRITTEN,
                number,
                f"value '{name}'",
                f"'{statement.name}' uses '{name}', whose storage '{taker}' took over",
                f"run '{statement.name}' before '{taker}', or let the values have separate buffers",
            )
        if name in program.tangents:
            raise self._fail(
                Defect.TANGENT_IN_FORWARD,
                number,
                f"tangent '{name}'",
                f"'{statement.name}' is forward and uses the tangent '{name}'",
                "move the statement to the backward phase",
            )
        definer = program.definer(name)
        later = "nothing defines it" if definer is None else f"statement {definer} defines it"
        raise self._fail(
            defect,
            number,
            f"value '{name}'",
            f"'{statement.name}' uses '{name}', but {later}",
            "define the value first, or list it among the inputs",
        )

    def _check_pairs(self, number: int, statement: Statement) -> None:
        for defined, read in statement.may_reuse:
            if defined in statement.defines and read in statement.reads:
                continue
            wrong = f"'{defined}' is not defined" if defined not in statement.defines else f"'{read}' is not read"
            raise self._fail(
                Defect.BAD_REUSE_PAIR,
                number,
                f"pair ('{defined}', '{read}')",
                f"{wrong} by '{statement.name}'",
                "name (defined value, read value) of the statement itself",
            )

    def _check_dims(self, number: int, statement: Statement) -> None:
        own = frozenset(statement.defines_dims)
        for dim in statement.defines_dims:
            if dim in self._known_dims:
                raise self._fail(
                    Defect.DIM_DEFINED_TWICE,
                    number,
                    f"dimension variable '{dim}'",
                    f"'{statement.name}' defines '{dim}', which is known already",
                    "let one statement, or the entry, define each variable",
                )
        if self._all_known:
            return
        needed = self._needed_dims(statement)
        # A call that returns its results itself makes their lengths known when it returns.
        missing = needed - self._known_dims - (frozenset() if statement.allocates else own)
        if missing:
            dim = min(missing)
            raise self._fail(
                Defect.DIM_NOT_KNOWN,
                number,
                f"dimension variable '{dim}'",
                f"'{statement.name}' needs '{dim}', which is not known when it begins",
                "bind it at entry, or define it by an earlier statement",
            )
        run_time = self._program.run_time_dims - needed - own
        if run_time and statement.code:
            mentioned = run_time.intersection(word for line in statement.code for word in _WORD.findall(line))
            if mentioned:
                dim = min(mentioned)
                raise self._fail(
                    Defect.DIM_NOT_DECLARED,
                    number,
                    f"dimension variable '{dim}'",
                    f"the code of '{statement.name}' mentions '{dim}', known only at run time",
                    f"add '{dim}' to reads_dims",
                )
        self._known_dims |= own

    def _needed_dims(self, statement: Statement) -> frozenset[str]:
        """The variables of `needed_dims`, from sets kept for each value."""
        needed = set(statement.reads_dims)
        for workspace in statement.workspace:
            if workspace.size is not None:
                needed |= workspace.size.dims
        for name in statement.reads + statement.writes + statement.defines:
            needed |= self._dims_of(name)
        return frozenset(needed)

    def _dims_of(self, name: str) -> frozenset[str]:
        known = self._value_dims.get(name)
        if known is None:
            value = self._program.values[name]
            exprs = (*value.shape, *value.stride, value.offset, self._program.buffers[value.buffer].size)
            known = frozenset[str]().union(*(expr.dims for expr in exprs))
            self._value_dims[name] = known
        return known

    def _define(self, number: int, statement: Statement) -> None:
        values = [self._program.values[name] for name in statement.defines]
        for value in values:
            if value.name in self._exists or value.name in self._taken_by or value.name in self._program.tangents:
                raise self._fail(
                    Defect.DEFINED_TWICE,
                    number,
                    f"value '{value.name}'",
                    f"'{statement.name}' defines '{value.name}', which exists already",
                    "give what it defines a name of its own",
                )
            if self._occupants.get(value.buffer) and not statement.allocates:
                self._check_view(number, statement, value)
            elif not self._may_be_filled(value.buffer):
                kind = self._program.buffers[value.buffer].kind.value
                raise self._fail(
                    Defect.STORAGE_NOT_OURS,
                    number,
                    f"value '{value.name}'",
                    f"'{statement.name}' allocates '{value.name}' in buffer '{value.buffer}' of kind {kind}",
                    "let it have an intermediate buffer; write in place with `writes`; set allocates=False for a view",
                )
            elif self._occupants.get(value.buffer):
                self._check_takeover(number, statement, value)
        fresh = {value.buffer for value in values} if statement.allocates else set[str]()
        for buffer in fresh:
            for name in self._occupants.pop(buffer, ()):
                self._exists.discard(name)
                self._taken_by[name] = number
        for value in values:
            if value.name in self._exists:
                raise self._fail(
                    Defect.DEFINED_TWICE,
                    number,
                    f"value '{value.name}'",
                    f"'{statement.name}' names '{value.name}' twice among what it defines",
                    "name each defined value once",
                )
            self._add(value)

    def _may_be_filled(self, buffer: str) -> bool:
        """Whether a statement may let values come to be in a buffer: its own, or a tangent's that is there."""
        kind = self._program.buffers[buffer].kind
        return kind is BufferKind.INTERMEDIATE or (kind is BufferKind.TANGENT and bool(self._occupants.get(buffer)))

    def _check_view(self, number: int, statement: Statement, value: Value) -> None:
        base = self._occupants[value.buffer]
        if not any(self._program.values[name].buffer == value.buffer for name in statement.reads + statement.writes):
            raise self._fail(
                Defect.VIEW_OF_NOTHING,
                number,
                f"value '{value.name}'",
                f"'{statement.name}' defines '{value.name}' in buffer '{value.buffer}' and reads none of {base}",
                "read the value it is a view of, or set allocates=True for storage of its own",
            )

    def _check_takeover(self, number: int, statement: Statement, value: Value) -> None:
        values = self._program.values
        inside = [name for name in statement.reads if values[name].buffer == value.buffer]
        refused = [name for name in inside if (value.name, name) not in statement.may_reuse]
        written = [name for name in statement.writes if values[name].buffer == value.buffer]
        if inside and not refused and not written:
            return
        if written:
            reason = f"'{written[0]}', which the statement also writes in place"
        elif refused:
            reason = f"'{refused[0]}', and there is no pair ('{value.name}', '{refused[0]}')"
        else:
            reason = f"{', '.join(self._occupants[value.buffer])}, none of which it reads"
        raise self._fail(
            Defect.REUSE_NOT_PERMITTED,
            number,
            f"value '{value.name}'",
            f"'{statement.name}' puts '{value.name}' into buffer '{value.buffer}', which holds {reason}",
            "give the value a buffer of its own, or a may_reuse pair if the kernel permits it",
        )

    def _check_output(self, output: Output, phase: Phase) -> None:
        program = self._program
        reason = ""
        if output.value is not None and output.dim is not None:
            reason = "it is a value and an integer at once"
        elif output.value is not None:
            reason = self._why_not_returned(output.value, phase)
        elif output.dim is not None:
            for dim in sorted(output.dim.dims):
                definer = program.dim_definer(dim)
                late = definer is not None and phase is Phase.FORWARD and definer >= program.first_backward
                if dim not in self._known_dims or late:
                    reason = f"'{dim}' is not known then"
        if reason:
            raise VerificationError(
                Defect.BAD_OUTPUT,
                program,
                subject=f"{phase.value} output '{output.code}'",
                found=f"{phase.value} output '{output.code}': {reason}",
                statement=self._taken_by.get(output.value or ""),
                fix="return a value that exists when the phase ends and whose storage nothing takes over",
            )

    def _why_not_returned(self, name: str, phase: Phase) -> str:
        program = self._program
        if name not in program.values:
            return f"'{name}' is no value"
        if name in self._taken_by:
            return f"'{program.statements[self._taken_by[name]].name}' takes over the storage of '{name}'"
        if name not in self._exists:
            return f"'{name}' never comes to be"
        definer = program.definer(name)
        late = definer is not None and definer >= program.first_backward
        if phase is Phase.FORWARD and (late or name in program.tangents):
            return f"'{name}' comes to be only in backward"
        return ""
