"""Canonical hints: what Inductor and the partitioner take a symbolic size for, whatever shape came first.

torch weighs sizes (what to save, what to fuse, how to split a reduction) by the integers of the first batch it
saw, so the generated program would depend on history. Here every symbol is given a value that depends only
on its range. Only weighing is changed: guards and specialisation go on seeing the true integers.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any
from unittest import mock

import sympy
import torch
from torch.fx.experimental import symbolic_shapes

_TYPICAL = 64
"""Stands for a size whose range says nothing: two such sizes make a batch of 4,096 elements."""
_BASE = "_optimization_hint_base"
_OF_SYMINT = "optimization_hint"


def canonical_hint(low: int | None, high: int | None) -> int:
    """The integer that stands for a size in a range.

    Args:
        low: Least value, None for unbounded.
        high: Greatest value, inclusive, None for unbounded.
    """
    least = 0 if low is None else low
    hint = max(_TYPICAL, least)
    return hint if high is None else min(hint, high)


@contextlib.contextmanager
def canonical_hints(shape_env: Any, weighing: Sequence[ModuleType] = ()) -> Iterator[None]:
    """Let every symbol of a shape environment be weighed by its canonical hint inside the context.

    Args:
        shape_env: The shape environment; None changes nothing.
        weighing: Further modules of torch that weigh sizes by functions they imported by name.
    """
    if shape_env is None:
        yield
        return
    with contextlib.ExitStack() as stack:
        for module in (symbolic_shapes, *weighing):
            for name, change in ((_BASE, _weigh_expressions), (_OF_SYMINT, _weigh_symints)):
                if hasattr(module, name):
                    stack.enter_context(mock.patch.object(module, name, change(getattr(module, name))))
        yield


def _weigh_expressions(base: Callable[..., int]) -> Callable[..., int]:
    def weigh(shape_env: Any, expr: Any, precomputed_replacements: Any = None, fallback: int | None = None) -> int:
        size: Any = sympy.sympify(expr)
        size = size.xreplace(precomputed_replacements or {}).xreplace(shape_env.replacements)
        known = {s: _hint_of(shape_env, s) for s in size.free_symbols if s in shape_env.backed_var_to_val}
        return base(shape_env, size.xreplace(known), precomputed_replacements, fallback)

    return weigh


def _weigh_symints(base: Callable[..., int]) -> Callable[..., int]:
    def weigh(size: torch.SymInt | int, fallback: int | None = None) -> int:
        if isinstance(size, torch.SymInt):  # which would answer by the hint it keeps
            return int(size.node.shape_env.optimization_hint(size.node.expr, fallback=fallback))
        return base(size, fallback)

    return weigh


def _hint_of(shape_env: Any, symbol: sympy.Symbol) -> sympy.Integer:
    bounds = shape_env.var_to_range[symbol]
    return sympy.Integer(canonical_hint(_integer(bounds.lower), _integer(bounds.upper)))


def _integer(value: Any) -> int | None:
    return int(value) if getattr(value, "is_Integer", False) and abs(int(value)) < 2**62 else None
