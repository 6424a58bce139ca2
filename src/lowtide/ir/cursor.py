"""A place in one line of program text, which says what it expected when it finds something else."""

from __future__ import annotations

import json
import re

from lowtide.errors import LowtideError
from lowtide.symbolic import Expr, parse

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.$]*")
_WORD = re.compile(r"[a-z_]+(?![A-Za-z0-9_.$])")
_UNDOTTED_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")
_INTEGER = re.compile(r"-?[0-9]+")
_JSON = json.JSONDecoder()


class ProgramTextError(LowtideError):
    """A text that is not a program.

    Attributes:
        line: Number of the guilty line, from 1; 0 when the text as a whole is at fault.
    """

    def __init__(self, what: str, *, found: str, line: int, fix: str) -> None:
        self.line = line
        super().__init__(what, found=found, where=f"line {line}" if line else "the whole text", fix=fix)


class Cursor:
    """A place in one line of text."""

    def __init__(self, text: str, line: int, exprs: dict[str, Expr], lists: dict[str, tuple[Expr, ...]]) -> None:
        self.text = text
        self.line = line
        self.position = 0
        self._exprs = exprs
        self._lists = lists
        self._skip()

    def fail(self, expected: str, fix: str = "compare with a text printed by render_program") -> ProgramTextError:
        """Make the error that says what was expected here."""
        found = self.text[self.position :] or "the end of the line"
        return ProgramTextError(
            f"cannot parse the program text: expected {expected}",
            found=f"{found!r} at column {self.position + 1} of {self.text!r}",
            line=self.line,
            fix=fix,
        )

    def at(self, literal: str) -> bool:
        """Take `literal` if it comes next."""
        if not self.text.startswith(literal, self.position):
            return False
        end = self.position + len(literal)
        # A word ends where it ends: `dim` is not the start of `dimension`.
        if literal[-1].isalnum() and end < len(self.text) and (self.text[end].isalnum() or self.text[end] in "_$."):
            return False
        self.position = end
        self._skip()
        return True

    def at_raw(self, literal: str) -> bool:
        """Take `literal` if it comes next, and nothing after it: not even spaces."""
        if not self.text.startswith(literal, self.position):
            return False
        self.position += len(literal)
        return True

    def word(self) -> str:
        """Take a keyword; empty when none comes next."""
        match = _WORD.match(self.text, self.position)
        if match is None:
            return ""
        self.position = match.end()
        self._skip()
        return match.group()

    def expect(self, literal: str) -> None:
        """Take `literal`, which must come next."""
        if not self.at(literal):
            raise self.fail(f"'{literal}'")

    def name(self) -> str:
        """Take a plain name or a JSON string."""
        if self.text.startswith('"', self.position):
            return self.string()
        match = _PLAIN_NAME.match(self.text, self.position)
        if match is None:
            raise self.fail("a name", "write names that are not plain as JSON strings")
        self.position = match.end()
        self._skip()
        return match.group()

    def source_name(self) -> str:
        """Take the name of an input; a plain one ends before a dot here, because `.shape[` may follow."""
        if self.text.startswith('"', self.position):
            return self.string()
        match = _UNDOTTED_NAME.match(self.text, self.position)
        if match is None:
            raise self.fail("the name of an input")
        self.position = match.end()
        return match.group()

    def at_integer(self) -> bool:
        """Tell whether an integer comes next, without taking it."""
        return _INTEGER.match(self.text, self.position) is not None

    def names(self) -> tuple[str, ...]:
        """Take names separated by commas, up to the end of the line."""
        found = [self.name()]
        while self.at(","):
            found.append(self.name())
        return tuple(found)

    def string(self) -> str:
        """Take a JSON string."""
        try:
            value, end = _JSON.raw_decode(self.text, self.position)
        except ValueError:
            value, end = None, self.position
        if not isinstance(value, str):
            raise self.fail("a JSON string")
        self.position = end
        self._skip()
        return value

    def integer(self) -> int:
        """Take an integer."""
        match = _INTEGER.match(self.text, self.position)
        if match is None:
            raise self.fail("an integer")
        self.position = match.end()
        self._skip()
        return int(match.group())

    def expr(self, *stops: str) -> Expr:
        """Take an expression, up to the first of `stops` outside brackets or to the end of the line."""
        end = self._end_of_expr(stops)
        source = self.text[self.position : end].strip()
        known = self._exprs.get(source)
        if known is None:
            try:
                known = parse(source)
            except (LowtideError, ValueError) as error:
                failure = self.fail("an expression", "write a polynomial such as 4*batch^2 + 2*floor(seq/2)")
                raise failure from error
            self._exprs[source] = known
        self.position = end
        self._skip()
        return known

    def exprs(self) -> tuple[Expr, ...]:
        """Take expressions in square brackets, which they have none of themselves."""
        end = self.text.find("]", self.position)
        source = self.text[self.position : end + 1]
        known = self._lists.get(source) if end >= 0 else None
        if known is not None:
            self.position = end + 1
            self._skip()
            return known
        self.expect("[")
        found: list[Expr] = []
        while not self.at("]"):
            if found:
                self.expect(",")
            found.append(self.expr(",", "]"))
        known = self._lists[source] = tuple(found)
        return known

    def rest(self) -> str:
        """Take the rest of the line as it is."""
        found = self.text[self.position :]
        self.position = len(self.text)
        return found

    def end(self) -> None:
        """Require the end of the line."""
        if self.position != len(self.text):
            raise self.fail("the end of the line")

    def _end_of_expr(self, stops: tuple[str, ...]) -> int:
        depth, end = 0, self.position
        while stops and end < len(self.text):
            if depth == 0 and self.text.startswith(stops, end):
                return end
            if self.text[end] in "([":
                depth += 1
            elif self.text[end] in ")]":
                depth -= 1
            end += 1
        return len(self.text)

    def _skip(self) -> None:
        while self.text.startswith((" ", "\t"), self.position):
            self.position += 1
