"""A statement while the lines of its text are read."""

from __future__ import annotations

from lowtide.ir.cursor import Cursor
from lowtide.ir.program import Cost, Flag, Phase, Statement, Workspace

_DETAILS = (
    "reads",
    "writes",
    "defines",
    "defines_dims",
    "reads_dims",
    "workspace",
    "cost",
    "flags",
    "may_reuse",
    "returns_its_own",
    "code",
    "origin",
)


class StatementDraft:
    """Collects the details of one statement, line by line."""

    def __init__(self, name: str, op: str, phase: Phase) -> None:
        self._name = name
        self._op = op
        self._phase: Phase = phase
        self._names: dict[str, tuple[str, ...]] = {}
        self._workspace: list[Workspace] = []
        self._cost: Cost | None = None
        self._flags: frozenset[Flag] = frozenset()
        self._pairs: list[tuple[str, str]] = []
        self._allocates = True
        self._code: list[str] = []
        self._origin = ""

    def read(self, cursor: Cursor) -> None:
        """Take one line of details."""
        if cursor.at_raw("|"):
            self._code.append(cursor.rest().removeprefix(" "))
            return
        keyword = cursor.word()
        match keyword:
            case "reads" | "writes" | "defines" | "defines_dims" | "reads_dims":
                self._names[keyword] = cursor.names()
            case "workspace":
                self._read_workspace(cursor)
            case "cost":
                self._read_cost(cursor)
            case "flags":
                self._read_flags(cursor)
            case "may_reuse":
                defined = cursor.name()
                cursor.expect("<-")
                self._pairs.append((defined, cursor.name()))
            case "returns_its_own":
                self._allocates = False
            case "code":
                self._code.append(cursor.string())
            case "origin":
                self._origin = cursor.string()
            case _:
                cursor.position = 0
                raise cursor.fail(f"one of {', '.join(_DETAILS)}, |")

    def statement(self) -> Statement:
        """Put the details together."""
        return Statement(
            name=self._name,
            op=self._op,
            phase=self._phase,
            reads=self._names.get("reads", ()),
            writes=self._names.get("writes", ()),
            defines=self._names.get("defines", ()),
            defines_dims=self._names.get("defines_dims", ()),
            workspace=tuple(self._workspace),
            cost=self._cost,
            flags=self._flags,
            may_reuse=tuple(self._pairs),
            allocates=self._allocates,
            code=tuple(self._code),
            origin=self._origin,
            reads_dims=self._names.get("reads_dims", ()),
        )

    def _read_workspace(self, cursor: Cursor) -> None:
        name = cursor.name()
        cursor.expect(":")
        size = None
        if not cursor.at("unknown"):
            cursor.expect("bytes")
            size = cursor.expr()
        self._workspace.append(Workspace(name, size))

    def _read_cost(self, cursor: Cursor) -> None:
        cursor.expect("flops")
        flops = cursor.expr(",")
        cursor.expect(",")
        cursor.expect("bytes")
        self._cost = Cost(flops, cursor.expr())

    def _read_flags(self, cursor: Cursor) -> None:
        flags = set[Flag]()
        start = cursor.position
        for name in cursor.names():
            try:
                flags.add(Flag(name))
            except ValueError:
                cursor.position = start
                raise cursor.fail(f"flags among {', '.join(flag.value for flag in Flag)}") from None
        self._flags = frozenset(flags)
