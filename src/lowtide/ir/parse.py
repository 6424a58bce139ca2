"""The text form of a program, read back: `parse_program`.

One line at a time, by a cursor that names what it expected. Nothing is evaluated; expressions go to
`lowtide.symbolic.parse`. The grammar is shown in `text.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from lowtide.errors import LowtideError
from lowtide.ir.cursor import Cursor, ProgramTextError
from lowtide.ir.draft import StatementDraft
from lowtide.ir.program import (
    Buffer,
    BufferKind,
    DimBinding,
    Output,
    Phase,
    Program,
    Statement,
    Value,
)
from lowtide.ir.text import FORMAT_VERSION
from lowtide.symbolic import AtMost, Constraint, Divisible, Equal, Expr, Scope


def parse_program(text: str) -> Program:
    """Read the text form of a program.

    Args:
        text: What `render_program` prints, or the same by hand. Lines starting with `#` and blank lines
            mean nothing.

    Returns:
        The program. It is not verified: `verify_program` does that.

    Raises:
        ProgramTextError: If a line does not follow the form; the message names the line.

    Cost: O(size of the text); each distinct expression is parsed once.
    """
    reader = _ProgramReader()
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            reader.read(Cursor(line, number, reader.exprs, reader.lists))
    return reader.program()


class _ProgramReader:
    """Collects the parts of a program, line by line."""

    def __init__(self) -> None:
        self.exprs: dict[str, Expr] = {}
        self.lists: dict[str, tuple[Expr, ...]] = {}
        self._started = False
        self._name: str | None = None
        self._level: str | None = None
        self._ranges: dict[str, tuple[int, int | None]] = {}
        self._constraints: list[Constraint] = []
        self._dim_names: dict[str, str] = {}
        self._assumptions: list[str] = []
        self._buffers: dict[str, Buffer] = {}
        self._values: dict[str, Value] = {}
        self._inputs: tuple[str, ...] = ()
        self._tangents: tuple[str, ...] = ()
        self._bindings: list[DimBinding] = []
        self._statements: list[Statement] = []
        self._outputs: dict[str, list[Output]] = {"forward": [], "backward": []}
        self._top: dict[str, Callable[[Cursor], None]] = {
            "name": self._read_name,
            "level": self._read_level,
            "dim": self._read_dim,
            "called": self._read_called,
            "relation": self._read_relation,
            "assume": self._read_assume,
            "buffer": self._read_buffer,
            "value": self._read_value,
            "inputs": self._read_inputs,
            "tangents": self._read_tangents,
            "entry": self._read_entry,
            "output": self._read_output,
        }
        self._draft: StatementDraft | None = None

    def read(self, cursor: Cursor) -> None:
        """Take one line that is neither blank nor a comment."""
        if not self._started:
            cursor.expect("lowtide program")
            if cursor.integer() != FORMAT_VERSION:
                cursor.position = 0
                raise cursor.fail(f"version {FORMAT_VERSION} of the form", "print the program again with this version")
            self._started = True
        elif cursor.text.startswith((" ", "\t")):
            self._read_body_line(cursor)
        elif cursor.text.startswith(("forward ", "backward ")):
            phase = Phase.FORWARD if cursor.at("forward") else Phase.BACKWARD
            cursor.at("backward")
            name = cursor.name()
            cursor.expect("calls")
            self._close_draft()
            self._draft = StatementDraft(name, cursor.name(), phase)
        else:
            handler = self._top.get(cursor.word())
            if handler is None:
                cursor.position = 0
                raise cursor.fail(f"one of forward, backward, {', '.join(self._top)}")
            handler(cursor)
        cursor.end()

    def program(self) -> Program:
        """Put the parts together."""
        self._close_draft()
        for part, word in ((self._name, "name"), (self._level, "level")):
            if part is None:
                raise ProgramTextError(
                    f"cannot parse the program text: there is no line '{word} ...'",
                    found=f"{len(self._statements)} statements, {len(self._buffers)} buffers",
                    line=0,
                    fix=f"add the line '{word} ...' after 'lowtide program {FORMAT_VERSION}'",
                )
        try:
            scope = Scope(self._ranges, self._constraints)
        except (LowtideError, ValueError) as error:
            raise ProgramTextError(
                "cannot parse the program text: its dim and relation lines make no scope",
                found=str(error),
                line=0,
                fix="correct the ranges and relations of the dimension variables",
            ) from error
        return Program(
            name=self._name or "",
            level="aten" if self._level == "aten" else "kernels",
            scope=scope,
            dim_names=self._dim_names,
            buffers=self._buffers,
            values=self._values,
            inputs=self._inputs,
            tangents=self._tangents,
            statements=tuple(self._statements),
            forward_outputs=tuple(self._outputs["forward"]),
            backward_outputs=tuple(self._outputs["backward"]),
            entry_dims=tuple(self._bindings),
            assumptions=tuple(self._assumptions),
        )

    def _read_body_line(self, cursor: Cursor) -> None:
        if self._draft is None:
            raise cursor.fail("a statement before its details", "start lines outside statements in the first column")
        self._draft.read(cursor)

    def _close_draft(self) -> None:
        if self._draft is not None:
            self._statements.append(self._draft.statement())
            self._draft = None

    def _read_name(self, cursor: Cursor) -> None:
        self._name = cursor.name()

    def _read_level(self, cursor: Cursor) -> None:
        level = cursor.name()
        if level not in ("aten", "kernels"):
            cursor.position = 0
            raise cursor.fail("level aten or level kernels")
        self._level = level

    def _read_dim(self, cursor: Cursor) -> None:
        name = cursor.name()
        self._once(cursor, "dim", name, self._ranges)
        cursor.expect("in")
        cursor.expect("[")
        low = cursor.integer()
        cursor.expect(",")
        high = None if cursor.at("*") else cursor.integer()
        cursor.expect("]")
        self._ranges[name] = (low, high)

    def _read_called(self, cursor: Cursor) -> None:
        dim = cursor.name()
        self._dim_names[dim] = cursor.name()

    def _read_relation(self, cursor: Cursor) -> None:
        if cursor.at_integer() and " divides " in cursor.text:
            divisor = cursor.integer()
            cursor.expect("divides")
            self._constraints.append(Divisible(cursor.expr(), divisor))
            return
        left = cursor.expr("==", "<=")
        kind = Equal if cursor.at("==") else AtMost
        if kind is AtMost:
            cursor.expect("<=")
        self._constraints.append(kind(left, cursor.expr()))

    def _read_assume(self, cursor: Cursor) -> None:
        self._assumptions.append(cursor.string())

    def _read_buffer(self, cursor: Cursor) -> None:
        name = cursor.name()
        self._once(cursor, "buffer", name, self._buffers)
        cursor.expect(":")
        for kind in BufferKind:
            if cursor.at(kind.value):
                break
        else:
            raise cursor.fail(f"one of {', '.join(kind.value for kind in BufferKind)}")
        cursor.expect("on")
        device = cursor.name()
        cursor.expect(",")
        cursor.expect("bytes")
        size = cursor.expr()
        self._buffers[name] = Buffer(name, size, kind, device)

    def _read_value(self, cursor: Cursor) -> None:
        name = cursor.name()
        self._once(cursor, "value", name, self._values)
        cursor.expect("in")
        buffer = cursor.name()
        cursor.expect(":")
        dtype = cursor.name()
        shape = cursor.exprs()
        cursor.expect("stride")
        stride = cursor.exprs()
        cursor.expect("offset")
        self._values[name] = Value(name, buffer, dtype, shape, stride, cursor.expr())

    def _read_inputs(self, cursor: Cursor) -> None:
        self._inputs = cursor.names()

    def _read_tangents(self, cursor: Cursor) -> None:
        self._tangents = cursor.names()

    def _read_entry(self, cursor: Cursor) -> None:
        name = cursor.name()
        cursor.expect("=")
        if cursor.at("code"):
            self._bindings.append(DimBinding(name, "", None, cursor.string()))
            return
        source = cursor.source_name()
        axis = None
        if cursor.at(".shape["):
            axis = cursor.integer()
            cursor.expect("]")
        self._bindings.append(DimBinding(name, source, axis))

    def _read_output(self, cursor: Cursor) -> None:
        phase = "forward" if cursor.at("forward") else "backward"
        if phase == "backward":
            cursor.expect("backward")
        value = cursor.name() if cursor.at("value") else None
        size = cursor.expr(" = ") if cursor.at("dim") else None
        if value is None and size is None:
            cursor.expect("none")
        cursor.expect("=")
        self._outputs[phase].append(Output(value, size, cursor.string()))

    def _once(self, cursor: Cursor, what: str, name: str, known: Container[str]) -> None:
        if name in known:
            cursor.position = 0
            raise cursor.fail(f"each {what} once, but '{name}' is there already", f"give the {what} another name")
