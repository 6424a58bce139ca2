"""Python text of the arguments of operator calls."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.fx as fx

from lowtide.lower.aten.scalars import SYMBOLIC, literal, number_code
from lowtide.lower.joint import UnsupportedGraphError


def argument_code(value: Any, node_code: Callable[[fx.Node], str]) -> str:
    """Print an argument of an fx node as Python that evaluates to it.

    Args:
        value: The argument.
        node_code: Prints a node that is used as an argument.

    Raises:
        UnsupportedGraphError: If the argument is a kind of object that text cannot carry.
    """
    if isinstance(value, fx.Node):
        return node_code(value)
    if isinstance(value, (list, tuple)):
        return _brackets(value, [argument_code(part, node_code) for part in value])
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return str(value)
    if isinstance(value, torch._ops.OpOverload):
        return operator_code(value)
    if isinstance(value, torch.device):
        return f"torch.device({str(value)!r})"
    if isinstance(value, SYMBOLIC):
        return number_code(value)
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return literal(value)
    raise UnsupportedGraphError(
        "An operator is given an object that lowtide cannot write down.",
        found=f"{type(value).__name__}: {str(value)[:80]}",
        where="an aten graph",
        fix="keep this call outside the compiled region, or use backend='inductor'.",
    )


def call_code(
    target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], node_code: Callable[[fx.Node], str]
) -> str:
    """Print a call of an operator overload."""
    return call_text(operator_code(target), args, kwargs, node_code)


def call_text(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], node_code: Callable[[fx.Node], str]) -> str:
    """Print a call of what has a name."""
    given = [argument_code(value, node_code) for value in args]
    given += [f"{key}={argument_code(value, node_code)}" for key, value in kwargs.items()]
    return f"{name}({', '.join(given)})"


def operator_code(target: torch._ops.OpOverload) -> str:
    """The path to an operator overload."""
    return f"torch.ops.{target.namespace}.{target._schema.name.split('::')[1]}.{target._overloadname}"


def _brackets(value: Any, parts: list[str]) -> str:
    if isinstance(value, list):
        return f"[{', '.join(parts)}]"
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
