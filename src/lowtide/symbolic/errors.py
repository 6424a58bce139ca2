"""The errors of symbolic sizes, each with its facts as fields."""

from collections.abc import Iterable

from lowtide.errors import LowtideError


class MissingVariableError(LowtideError):
    """A valuation or scope does not know a dimension variable.

    Attributes:
        name: The variable.
        known: The variables that are known.
    """

    def __init__(self, name: str, known: Iterable[str], where: str) -> None:
        self.name = name
        self.known = tuple(sorted(known))
        super().__init__(
            f"the dimension variable '{name}' has no {'range' if where == 'scope' else 'value'}",
            found=f"variables {', '.join(self.known) or '(none)'}",
            where=where,
            fix=f"give '{name}' a {'range in the scope' if where == 'scope' else 'value in the valuation'}",
        )


class UndefinedSizeError(LowtideError):
    """An expression divides by zero at a valuation.

    Attributes:
        atom: The text of the division.
        valuation: The values at which it has no value.
    """

    def __init__(self, atom: str, valuation: dict[str, int]) -> None:
        self.atom = atom
        self.valuation = valuation
        super().__init__(
            f"{atom} has no value where its denominator is zero",
            found=", ".join(f"{name}={value}" for name, value in sorted(valuation.items())),
            where="evaluate",
            fix="exclude these values by a range or a constraint of the scope",
        )


class ParseError(LowtideError):
    """A text is no expression.

    Attributes:
        text: The whole text.
        position: Index of the first character that does not fit.
    """

    def __init__(self, text: str, position: int, expected: str) -> None:
        self.text = text
        self.position = position
        rest = text[position : position + 20]
        super().__init__(
            "the text is not a size expression",
            found=f"{rest!r} in {text!r}" if rest else f"the end of {text!r}",
            where=f"character {position}",
            fix=f"write {expected} there",
        )


class ScopeError(LowtideError):
    """A scope contradicts itself, or no valuation that it admits was found.

    Attributes:
        scope_text: The scope as text.
    """

    def __init__(self, what: str, found: str, scope_text: str) -> None:
        self.scope_text = scope_text
        super().__init__(what, found=found, where=scope_text, fix="check the ranges and constraints that meet there")
