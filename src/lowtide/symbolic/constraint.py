"""Facts about dimension variables that a scope assumes: equalities, upper bounds, divisibility.

They come from the semantics of operators (a reshape gives `Equal(s0, 12*s1)`, a nonzero count gives
`AtMost(u, n)`), from the caller, and from the guards of a foreign program.
"""

from dataclasses import dataclass
from typing import TypeAlias

from lowtide.symbolic.expression import Expr, as_expr


@dataclass(frozen=True, slots=True)
class Equal:
    """left == right. Either may be given as an integer."""

    left: Expr
    right: Expr

    def __init__(self, left: Expr | int, right: Expr | int) -> None:
        object.__setattr__(self, "left", as_expr(left))
        object.__setattr__(self, "right", as_expr(right))

    def __str__(self) -> str:
        return f"{self.left} == {self.right}"


@dataclass(frozen=True, slots=True)
class AtMost:
    """left <= right. Either may be given as an integer."""

    left: Expr
    right: Expr

    def __init__(self, left: Expr | int, right: Expr | int) -> None:
        object.__setattr__(self, "left", as_expr(left))
        object.__setattr__(self, "right", as_expr(right))

    def __str__(self) -> str:
        return f"{self.left} <= {self.right}"


@dataclass(frozen=True, slots=True)
class Divisible:
    """value is a multiple of divisor, an integer >= 1."""

    value: Expr
    divisor: int

    def __post_init__(self) -> None:
        if self.divisor < 1:
            raise ValueError(f"a divisor is an integer >= 1, not {self.divisor}")

    def __str__(self) -> str:
        return f"mod({self.value}, {self.divisor}) == 0"


Constraint: TypeAlias = Equal | AtMost | Divisible
