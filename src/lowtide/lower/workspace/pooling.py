"""Workspace of pooling and resampling on the CPU: nothing when all images lie densely in one and the same order.

The kernels read and write images either with channels first or with channels last. Images of two orders in one call, or
with gaps, are converted through temporaries, which is not modelled: the workspace is then unknown.
"""

from lowtide.ir import Workspace
from lowtide.lower.workspace.call import Argument, Call
from lowtide.lower.workspace.layout import is_not_contiguous, permuted
from lowtide.lower.workspace.machine import CpuMachine

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


def _is_dense(image: Argument, order: tuple[int, ...]) -> bool:
    if image.shape is None or image.stride is None:
        return False
    wrong = is_not_contiguous(permuted(image.shape, order), permuted(image.stride, order))
    return wrong.is_constant and wrong.constant_value == 0
