"""Workspace of pooling and resampling on the CPU: nothing when all images lie densely in one and the same order.

The kernels read and write images either with channels first or with channels last. Images of two orders in one call, or
with gaps, are converted through temporaries, which is modelled for adaptive averages only.
"""

from lowtide.ir import Workspace
from lowtide.lower.workspace.call import Argument, Call, argument
from lowtide.lower.workspace.layout import (
    differs,
    is_channels_last,
    is_not_contiguous,
    is_one,
    permuted,
    shape_of,
    stride_of,
    tensor_size,
)
from lowtide.lower.workspace.machine import CpuMachine
from lowtide.symbolic import maximum

_CHANNELS_FIRST = (0, 1, 2, 3)
_CHANNELS_LAST = (0, 2, 3, 1)


def pool(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Nothing if all images are dense with channels first, or all with channels last; else unknown."""
    del machine
    images = [entry for entry in call.arguments.values() if entry.shape is not None and len(entry.shape) == 4]
    for order in (_CHANNELS_FIRST, _CHANNELS_LAST):
        if images and all(_is_dense(image, order) for image in images):
            return ()
    return (Workspace(call.operator, None),)


def adaptive_average_backward(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """A second copy of the result, if the gradient and the input lie in different orders; unknown if one has gaps.

    The kernel computes in the order of the gradient, and converts to the order of the input at the end.
    """
    del machine
    images = (argument(call, 0, "grad_output"), argument(call, 1, "self"))
    if any(image.shape is None or len(image.shape) != 4 for image in images):
        return (Workspace(call.operator, None),)
    if not all(_is_dense(image, _CHANNELS_FIRST) or _is_dense(image, _CHANNELS_LAST) for image in images):
        return (Workspace(call.operator, None),)
    orders = [is_channels_last(shape_of(image), stride_of(image)) for image in images]
    _, channels, height, width = shape_of(images[1])
    same_in_both_orders = maximum(is_one(channels), is_one(height) * is_one(width))
    size = differs(*orders) * (1 - same_in_both_orders) * tensor_size(images[1])
    return () if size.is_constant and size.constant_value == 0 else (Workspace("result in the gradient's order", size),)


def _is_dense(image: Argument, order: tuple[int, ...]) -> bool:
    if image.shape is None or image.stride is None:
        return False
    wrong = is_not_contiguous(permuted(image.shape, order), permuted(image.stride, order))
    return wrong.is_constant and wrong.constant_value == 0
