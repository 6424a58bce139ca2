"""What a program costs: sums of the costs of its statements."""

from __future__ import annotations

from dataclasses import dataclass

from lowtide.ir import Phase, Program
from lowtide.symbolic import Expr


@dataclass(frozen=True, slots=True)
class CostSummary:
    """The cost of some statements together.

    Attributes:
        flops: Floating-point operations.
        bytes_moved: Bytes read and written.
        unpriced: Names of statements whose cost is not known and not in the sums.
    """

    flops: Expr
    bytes_moved: Expr
    unpriced: tuple[str, ...]


def total_cost(program: Program, phase: Phase | None = None) -> CostSummary:
    """Add up the costs of all statements, or of those of one phase.

    Returns:
        Exact sums of the costs that are known, and the names of statements without one.

    Cost: O(terms of all costs).
    """
    flops: list[Expr] = []
    moved: list[Expr] = []
    unpriced: list[str] = []
    for statement in program.statements:
        if phase is not None and statement.phase is not phase:
            continue
        if statement.cost is None:
            unpriced.append(statement.name)
        else:
            flops.append(statement.cost.flops)
            moved.append(statement.cost.bytes_moved)
    return CostSummary(sum_exprs(flops), sum_exprs(moved), tuple(unpriced))


def sum_exprs(exprs: list[Expr]) -> Expr:
    """Add expressions in one pass over their terms, which a chain of `+` would repeat for each summand."""
    terms = Expr({}).terms
    for expr in exprs:
        for monomial, coefficient in expr.terms.items():
            terms[monomial] = terms.get(monomial, 0) + coefficient
    return Expr({monomial: coefficient for monomial, coefficient in terms.items() if coefficient})
