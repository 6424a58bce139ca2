"""A library call as the workspace formulas see it: its operator and its arguments, sizes as expressions."""

from collections.abc import Mapping
from dataclasses import dataclass

from lowtide.symbolic import Expr


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument: a tensor (shape, stride and dtype), or a plain value.

    Attributes:
        shape: Elements along each axis; None for a plain value.
        stride: Distance between neighbours along each axis, in elements; None for a plain value.
        dtype: Element type such as `float32`; empty for a plain value.
        value: The plain value: number, bool, string, None, an `Expr`, or a tuple of Arguments.
    """

    shape: tuple[Expr, ...] | None = None
    stride: tuple[Expr, ...] | None = None
    dtype: str = ""
    value: object = None


@dataclass(frozen=True, slots=True)
class Call:
    """A library call.

    Attributes:
        operator: Such as `aten.convolution_backward.default` or `extern_kernels.mm`.
        arguments: By parameter name, in schema order.
        device: Where it runs, such as `cpu` or `cuda:0`.
    """

    operator: str
    arguments: Mapping[str, Argument]
    device: str = "cpu"


def argument(call: Call, position: int, name: str) -> Argument:
    """Return an argument by its parameter name, or by position where the call does not name its arguments.

    Raises:
        KeyError: If there is no such argument.
    """
    if name in call.arguments:
        return call.arguments[name]
    plain = f"arg{position}"
    if plain in call.arguments:
        return call.arguments[plain]
    raise KeyError(f"{call.operator} has no argument {name!r}; it has {sorted(call.arguments)}")


def plain_value(call: Call, position: int, name: str, default: object = None) -> object:
    """Return a plain argument, or `default` where it is not given."""
    try:
        return argument(call, position, name).value
    except KeyError:
        return default


def as_integer(value: object) -> int | None:
    """Return a whole number that is given as such, as a constant `Expr` or inside an `Argument`; else None."""
    if isinstance(value, Argument):
        return as_integer(value.value)
    if isinstance(value, Expr):
        return value.constant_value if value.is_constant else None
    return int(value) if isinstance(value, int) else None
