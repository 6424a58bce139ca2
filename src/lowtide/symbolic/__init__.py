"""Sizes as expressions over dimension variables: arithmetic, scopes, proved comparisons, text.

Knows no programs and no framework. sympy is met in `lowtide.symbolic.from_sympy` only, which is not imported here.
"""

from lowtide.symbolic.batch import BatchEvaluator, compile_batch
from lowtide.symbolic.bounds import bounds
from lowtide.symbolic.comparison import CompareTally, Comparison, Rule, Verdict
from lowtide.symbolic.constraint import AtMost, Constraint, Divisible, Equal
from lowtide.symbolic.decide import compare
from lowtide.symbolic.errors import MissingVariableError, ParseError, ScopeError, UndefinedSizeError
from lowtide.symbolic.evaluate import evaluate
from lowtide.symbolic.expression import (
    Expr,
    as_expr,
    ceil_div,
    const,
    dim,
    floor_div,
    maximum,
    minimum,
    mod,
)
from lowtide.symbolic.implied import drop_implied
from lowtide.symbolic.parse import parse
from lowtide.symbolic.scope import Scope
from lowtide.symbolic.substitute import substitute
from lowtide.symbolic.text import render, render_python

__all__ = [
    "AtMost",
    "BatchEvaluator",
    "CompareTally",
    "Comparison",
    "Constraint",
    "Divisible",
    "Equal",
    "Expr",
    "MissingVariableError",
    "ParseError",
    "Rule",
    "Scope",
    "ScopeError",
    "UndefinedSizeError",
    "Verdict",
    "as_expr",
    "bounds",
    "ceil_div",
    "compare",
    "compile_batch",
    "const",
    "dim",
    "drop_implied",
    "evaluate",
    "floor_div",
    "maximum",
    "minimum",
    "mod",
    "parse",
    "render",
    "render_python",
    "substitute",
]
