"""Pairs of expressions to compare, with the scope in which they are compared."""

from dataclasses import dataclass
from typing import TypeAlias

from lowtide.symbolic import Expr, Scope

Pair: TypeAlias = tuple[Expr, Expr]


@dataclass(frozen=True, slots=True)
class Family:
    """Pairs of one program.

    Attributes:
        name: What the tables call it.
        scope: The admitted valuations.
        pairs: What is compared.
    """

    name: str
    scope: Scope
    pairs: list[Pair]
