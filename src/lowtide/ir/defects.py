"""What can be wrong with a program, and the error that shows it beside the neighbouring statements."""

from __future__ import annotations

from enum import StrEnum

from lowtide.errors import LowtideError
from lowtide.ir.program import Program
from lowtide.ir.text import render_statement

_NEIGHBOURS = 2


class Defect(StrEnum):
    """Why a program is not sound; the text is the headline of the message."""

    NAME_MISMATCH = "a part is filed under a name that is not its own"
    DUPLICATE_STATEMENT = "two statements have one name"
    AMBIGUOUS_NAME = "a value and a dimension variable have one name"
    UNKNOWN_BUFFER = "a value lives in a buffer that does not exist"
    UNKNOWN_VALUE = "a name is no value of the program"
    UNKNOWN_DIM = "an expression uses a dimension variable that the scope does not know"
    UNKNOWN_DTYPE = "a value has an element type of unknown width"
    RANK_MISMATCH = "a value has more or fewer strides than axes"
    OUTSIDE_BUFFER = "a value reaches beyond the end of its buffer"
    NEGATIVE_SIZE = "a buffer or workspace may have a negative size"
    WRONG_OWNER = "an input, tangent or output lives in a buffer of the wrong kind"
    BAD_BINDING = "a dimension variable is bound to something that is not there"
    DIM_DEFINED_TWICE = "a dimension variable becomes known twice"
    DIM_NOT_KNOWN = "a dimension variable is needed before it is known"
    DIM_NOT_DECLARED = "code mentions a run-time dimension variable that its statement does not declare"
    PHASES_MIXED = "a forward statement comes after a backward one"
    DEFINED_TWICE = "a value comes to be twice"
    NOT_DEFINED = "a value is used before it comes to be"
    TANGENT_IN_FORWARD = "a tangent is used in forward"
    OVERWRITTEN = "a value is used after its storage was taken over"
    WRITE_TO_DEAD = "a value is written in place where it does not exist"
    BAD_REUSE_PAIR = "a may_reuse pair does not name a defined and a read value of its statement"
    REUSE_NOT_PERMITTED = "storage is taken over that the kernel does not permit"
    STORAGE_NOT_OURS = "storage is taken over that belongs to the caller"
    VIEW_OF_NOTHING = "a view does not read the value it is a view of"
    BAD_OUTPUT = "an output cannot be returned"


class VerificationError(LowtideError):
    """A program that is not sound.

    Attributes:
        defect: What is wrong.
        statement: Index of the guilty statement, or None when no statement is to blame.
        subject: The value, buffer or variable concerned.
    """

    def __init__(
        self, defect: Defect, program: Program, *, subject: str, found: str, fix: str, statement: int | None = None
    ) -> None:
        self.defect = defect
        self.statement = statement
        self.subject = subject
        where = f"program '{program.name}', {subject}"
        if statement is not None:
            where = f"program '{program.name}', statement {statement}\n{_window(program, statement)}"
        super().__init__(f"program '{program.name}' is not sound: {defect.value}", found=found, where=where, fix=fix)


def _window(program: Program, guilty: int) -> str:
    """Print the guilty statement, marked, between its neighbours."""
    lines: list[str] = []
    for number in range(max(0, guilty - _NEIGHBOURS), min(len(program.statements), guilty + _NEIGHBOURS + 1)):
        mark = ">" if number == guilty else " "
        text = render_statement(program.statements[number]).split("\n")
        lines += [f"    {mark} {number:>5}  {text[0]}", *(f"    {mark}        {line}" for line in text[1:])]
    return "\n".join(lines)
