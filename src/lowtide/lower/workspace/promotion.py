"""The element type in which ATen computes an elementwise operator: `result_type`, by names of types.

Tensors with axes decide first, then tensors without axes, then plain numbers: a later group changes the type only by
being of a higher category (truth value, integer, float, complex).
"""

from collections.abc import Iterable

import torch

from lowtide.lower.workspace.call import Argument
from lowtide.symbolic import Expr


def is_number(argument: Argument) -> bool:
    """Tell whether an argument is a plain number or truth value; a size counts as one."""
    return argument.shape is None and isinstance(argument.value, (bool, int, float, complex, Expr))


def number_type(argument: Argument) -> str:
    """The type of the tensor that ATen makes of a plain number."""
    if isinstance(argument.value, bool):
        return "bool"
    if isinstance(argument.value, complex):
        return "complex128"
    return "float64" if isinstance(argument.value, float) else "int64"


def common_type(arguments: Iterable[Argument], *, float_at_least: bool = False) -> str:
    """The type in which an elementwise operator computes.

    Args:
        arguments: Tensors and plain numbers.
        float_at_least: Whether the operator turns integers into floats (a division, a square root).

    Guarantee: exact where the default type is float32.
    """
    groups: dict[int, torch.dtype | None] = {0: None, 1: None, 2: None}
    for argument in arguments:
        group, found = _ranked(argument)
        held = groups[group]
        groups[group] = found if held is None else torch.promote_types(held, found)
    result = _combine(groups[0], _combine(groups[1], groups[2]))
    assert result is not None, "bug: an elementwise operator without operands"
    if float_at_least and not (result.is_floating_point or result.is_complex):
        result = torch.float32
    return str(result).removeprefix("torch.")


def _ranked(argument: Argument) -> tuple[int, torch.dtype]:
    if argument.shape is not None:
        return (0 if argument.shape else 1), getattr(torch, argument.dtype)
    by_category = {"bool": torch.bool, "int64": torch.int64, "float64": torch.float32, "complex128": torch.complex64}
    return 2, by_category[number_type(argument)]


def _combine(higher: torch.dtype | None, lower: torch.dtype | None) -> torch.dtype | None:
    if higher is None or lower is None:
        return lower if higher is None else higher
    if higher.is_complex or (higher.is_floating_point and not lower.is_complex):
        return higher
    if higher is torch.bool or lower.is_floating_point or lower.is_complex:
        return torch.promote_types(higher, lower)
    return higher
