"""Arithmetic of layouts: whether a tensor lies densely, as an indicator expression that is 0 or 1.

Lengths may be variables, so "is it contiguous" can depend on the valuation: a transposed tensor is contiguous when one
of its axes has length 1. An indicator keeps that dependence exact, where a guess of yes or no would not.
Every length is taken to be at least 1.
"""

from collections.abc import Sequence

from lowtide.ir import item_bytes, numel
from lowtide.lower.workspace.call import Argument
from lowtide.symbolic import Expr, as_expr, const, maximum, minimum


def is_at_least(value: Expr, threshold: int | Expr) -> Expr:
    """Return 1 where `value >= threshold`, else 0."""
    return minimum(1, maximum(0, value - threshold + 1))


def is_one(value: Expr) -> Expr:
    """Return 1 where `value`, at least 1, is 1; else 0."""
    return 1 - minimum(1, value - 1)


def differs(left: Expr, right: Expr) -> Expr:
    """Return 1 where the two differ, else 0."""
    gap = left - right
    return minimum(1, maximum(gap, -gap))


def equals(left: Expr, right: int | Expr) -> Expr:
    """Return 1 where the two are equal, else 0."""
    return 1 - differs(left, as_expr(right))


def any_of(*indicators: Expr) -> Expr:
    """Return 1 where at least one indicator is 1. One that is always 1 settles it, whatever the others say."""
    if any(indicator.is_constant and indicator.constant_value == 1 for indicator in indicators):
        return const(1)
    return maximum(0, *indicators)


def is_not_contiguous(shape: Sequence[Expr], stride: Sequence[Expr]) -> Expr:
    """Return 1 where a tensor of this shape and stride is not laid out densely, last axis innermost; else 0.

    An axis of length 1 does not matter: its stride is never used.

    Guarantee: exact, for lengths of at least 1.
    """
    step = const(1)
    wrong: list[Expr] = []
    for length, have in zip(reversed(shape), reversed(stride), strict=True):
        wrong.append((1 - is_one(length)) * differs(have, step))
        step = step * length
    return any_of(*wrong)


def is_channels_last(shape: Sequence[Expr], stride: Sequence[Expr]) -> Expr:
    """Return 1 where torch takes an image (batch, channels, height, width) for one with channels last; else 0.

    torch looks at strides only: they must grow in the order channels, width, height, batch. An image that is dense in
    both orders counts as channels first.

    Guarantee: exact, for lengths of at least 1.
    """
    _, channels, height, width = shape
    batch_step, channel_step, row_step, column_step = stride
    return (
        is_at_least(channel_step, 1)
        * is_at_least(column_step, channel_step * channels)
        * is_at_least(row_step, column_step * width)
        * is_at_least(batch_step, row_step * height)
        * differs(row_step * height, channel_step)
    )


def permuted(items: Sequence[Expr], order: Sequence[int]) -> tuple[Expr, ...]:
    """Return the lengths or strides of the axes in `order`."""
    return tuple(items[axis] for axis in order)


def tensor_size(tensor: Argument) -> Expr:
    """Return the bytes of a dense copy of a tensor.

    Raises:
        TypeError: If the argument is no tensor.
    """
    return numel(shape_of(tensor)) * item_bytes(tensor.dtype)


def shape_of(tensor: Argument) -> tuple[Expr, ...]:
    """Return the shape of a tensor argument.

    Raises:
        TypeError: If the argument is no tensor.
    """
    if tensor.shape is None:
        raise TypeError(f"expected a tensor argument, found the plain value {tensor.value!r}")
    return tensor.shape


def stride_of(tensor: Argument) -> tuple[Expr, ...]:
    """Return the stride of a tensor argument, in elements.

    Raises:
        TypeError: If the argument is no tensor.
    """
    if tensor.stride is None:
        raise TypeError(f"expected a tensor argument, found the plain value {tensor.value!r}")
    return tensor.stride
