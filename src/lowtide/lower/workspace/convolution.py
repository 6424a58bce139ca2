"""Workspace of convolutions on the CPU.

Which code runs depends on the sizes. oneDNN takes a float32 convolution when it is worth its conversions: more than one
image, or more than 20480 input elements, or a kernel longer than 3 along both axes (and not a plain 1×1 kernel on one
thread). Otherwise ATen unrolls the input into columns and multiplies. Other types are always unrolled, unless oneDNN
supports them on the machine. Both are written as one expression, with an indicator of which one applies.

What oneDNN takes is the sum of converted copies of operands, which follow from the layout, and of its own scratch
memory, which follows from the kernel that it picks for a processor. Modelled is what it does with AVX2 (no AVX-512); on
another instruction set the workspace is unknown. Gradients are modelled for unrolled convolutions only.
"""

from collections.abc import Sequence

from lowtide.ir import Workspace, item_bytes, numel
from lowtide.lower.workspace.call import Argument, Call, argument, as_integer, plain_value
from lowtide.lower.workspace.layout import is_at_least, is_not_contiguous, is_one, permuted, shape_of, stride_of
from lowtide.lower.workspace.machine import CpuMachine
from lowtide.symbolic import Expr, as_expr, ceil_div, const, maximum, minimum

_VECTOR = 8
_PAGE = 4096
# One entry of the list of products that a thread hands to oneDNN's kernel, in bytes, measured.
_BATCH_ENTRY = 40
_ALWAYS_ONEDNN = 20480
_MANY_IMAGES = 16
# Up to this many output channels oneDNN's choice of block does not depend on the image; beyond, only a bound is known.
_SETTLED_CHANNELS = 48
_SETTLED_MULTIPLE = 96


def convolution(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of a forward `convolution`.

    Guarantee: exact where a size is given, except for channels-last convolutions with more than 48 output channels or
    more than 102 taps: oneDNN's choice depends on the image there, and the size is an upper bound, found by measurement
    only (the term's name says "at most"). Unknown for groups, transposed and dilated kernels,
    three axes, mixed layouts, and instruction sets that are not modelled.
    """
    unknown = (Workspace(call.operator, None),)
    found = _read(call, 0)
    if found is None:
        return unknown
    image, weight, stride, padding = found
    onednn = _goes_to_onednn(image, weight, stride, machine)
    columns = _columns(image, weight, stride, padding)
    if _is_zero(onednn):
        return _named("unrolled input", columns)
    if machine.onednn != "avx2" or image.dtype != "float32":
        return unknown
    if len(shape_of(image)) == 4 and _is_dense(image, (0, 2, 3, 1)) and _is_dense(weight, (0, 2, 3, 1)):
        scratch, packed = _scratch(weight, machine), _packed_weights(weight)
        name = "oneDNN scratch and packed weights"
        if not _is_settled(weight):
            name += " (at most)"
        return _named(name, onednn * (scratch + packed) + (1 - onednn) * columns)
    if _is_dense(image) and _is_dense(weight):
        converted = _blocked_copies(image, weight, stride, padding)
        return _named("oneDNN copies in blocks of channels", onednn * converted + (1 - onednn) * columns)
    return unknown


def convolution_backward(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of `convolution_backward`: the unrolled input, where ATen computes it; unknown where oneDNN does.

    Guarantee: exact where a size is given: operands in one layout, one group, no dilation.
    """
    unknown = (Workspace(call.operator, None),)
    found = _read(call, 1)
    wanted = plain_value(call, 10, "output_mask")
    if found is None or not isinstance(wanted, tuple):
        return unknown
    image, weight, stride, padding = found
    if not _is_zero(_goes_to_onednn(image, weight, stride, machine)):
        return unknown
    gradient = argument(call, 0, "grad_output")
    orders = [None] if len(shape_of(image)) == 3 else [None, (0, 2, 3, 1)]
    if not any(all(_is_dense(tensor, order) for tensor in (gradient, image, weight)) for order in orders):
        return unknown
    columns = _columns(image, weight, stride, padding)
    return _named("unrolled input", columns) if as_integer(wanted[1]) else ()


def _read(call: Call, first: int) -> tuple[Argument, Argument, tuple[int, ...], tuple[int, ...]] | None:
    """Input, weight, stride and padding of a plain convolution over one or two axes, else None."""
    try:
        image, weight = argument(call, first, "input"), argument(call, first + 1, "weight")
    except KeyError:
        return None
    stride, padding, dilation = (_integers(call, name) for name in ("stride", "padding", "dilation"))
    if image.shape is None or weight.shape is None or stride is None or padding is None or dilation is None:
        return None
    if len(image.shape) not in (3, 4) or not weight.shape[0].is_constant:
        return None
    if (
        any(step != 1 for step in dilation)
        or as_integer(plain_value(call, -1, "groups")) != 1
        or plain_value(call, -1, "transposed")
    ):
        return None
    axes = len(image.shape) - 2
    return image, weight, _repeat(stride, axes), _repeat(padding, axes)


def _integers(call: Call, name: str) -> tuple[int, ...] | None:
    value = plain_value(call, -1, name)
    if not isinstance(value, tuple):
        return None
    found = tuple(as_integer(entry) for entry in value)
    return None if None in found else tuple(entry for entry in found if entry is not None)


def _repeat(values: tuple[int, ...], axes: int) -> tuple[int, ...]:
    return values * axes if len(values) == 1 else values


def _goes_to_onednn(image: Argument, weight: Argument, stride: Sequence[int], machine: CpuMachine) -> Expr:
    """1 where oneDNN computes the convolution, 0 where ATen unrolls it."""
    if image.dtype != "float32":
        reduced = image.dtype in ("float16", "bfloat16")
        return const(1) if reduced and machine.packs_reduced is not False else const(0)
    batch, kernel = shape_of(image)[0], shape_of(weight)[2:]
    plain_kernel = const(1)
    for length in kernel:
        plain_kernel = plain_kernel * is_one(length)
    busy = const(1)
    if all(step == 1 for step in stride):
        reasons = (is_at_least(batch, _MANY_IMAGES), is_at_least(machine.threads, 2))
        busy = maximum(1 - plain_kernel, *reasons)
    long_kernel = const(1 if len(kernel) == 2 else 0)
    for length in kernel:
        long_kernel = long_kernel * is_at_least(length, 4)
    large = maximum(long_kernel, is_at_least(batch, 2), is_at_least(numel(shape_of(image)), _ALWAYS_ONEDNN + 1))
    return busy * large


def _output_lengths(image: Argument, weight: Argument, stride: Sequence[int], padding: Sequence[int]) -> list[Expr]:
    lengths = zip(shape_of(image)[2:], shape_of(weight)[2:], stride, padding, strict=True)
    return [(length + 2 * pad - kernel) // step + 1 for length, kernel, step, pad in lengths]


def _columns(image: Argument, weight: Argument, stride: Sequence[int], padding: Sequence[int]) -> Expr:
    """Bytes of the input unrolled into one column per output position; none for a plain 1×1 kernel."""
    kernel = shape_of(weight)[1:]
    size = shape_of(image)[0] * numel(kernel) * numel(_output_lengths(image, weight, stride, padding))
    size = size * item_bytes(image.dtype)
    if all(step == 1 for step in stride) and all(pad == 0 for pad in padding):
        plain = const(1)
        for length in kernel[1:]:
            plain = plain * is_one(length)
        size = size * (1 - plain)
    return size


def _scratch(weight: Argument, machine: CpuMachine) -> Expr:
    """One page, and per thread a list with an entry for each tap of the kernel, in whole pages."""
    taps = numel(shape_of(weight)[2:])
    pages = ceil_div(_BATCH_ENTRY * taps, _PAGE) * _PAGE
    return _PAGE + machine.threads * _BATCH_ENTRY * ceil_div(pages, _BATCH_ENTRY)


def _is_settled(weight: Argument) -> bool:
    channels, taps = shape_of(weight)[0].constant_value, numel(shape_of(weight)[2:])
    narrow = channels <= _SETTLED_CHANNELS or channels % _SETTLED_MULTIPLE == 0
    return narrow and taps.is_constant and taps.constant_value * _BATCH_ENTRY <= _PAGE


def _packed_weights(weight: Argument) -> Expr:
    """Weights with the output channels rounded up to the block that oneDNN picks, or to the worst one it may pick."""
    channels = shape_of(weight)[0]
    if _is_settled(weight) and channels.constant_value <= _VECTOR:
        rounded = as_expr(_VECTOR)
    elif _is_settled(weight):
        rounded = minimum(_round_up(channels, 16), _round_up(channels, 24))
    else:
        rounded = maximum(*(_round_up(channels, block) for block in (16, 24, 32)))
    return rounded * numel(shape_of(weight)[1:]) * item_bytes(weight.dtype)


def _blocked_copies(image: Argument, weight: Argument, stride: Sequence[int], padding: Sequence[int]) -> Expr:
    """Peak of the converted copies above the result, which is allocated last.

    Input (unless it has fewer than 8 channels), weights and result in blocks of 8 channels live at once; then the
    blocked result beside the plain one.
    """
    item = item_bytes(image.dtype)
    batch, channels = shape_of(image)[:2]
    lengths = _output_lengths(image, weight, stride, padding)
    few = 1 - is_at_least(channels, _VECTOR)
    filled = few * channels + (1 - few) * _round_up(channels, _VECTOR)
    outputs = _round_up(shape_of(weight)[0], _VECTOR)
    source = (1 - few) * batch * filled * numel(shape_of(image)[2:]) * item
    kernel = outputs * filled * numel(shape_of(weight)[2:]) * item
    blocked = batch * outputs * numel(lengths) * item
    result = batch * shape_of(weight)[0] * numel(lengths) * item
    return maximum(source + kernel + blocked - result, blocked)


def _round_up(length: Expr, block: int) -> Expr:
    return ceil_div(length, block) * block


def _is_dense(tensor: Argument, order: Sequence[int] | None = None) -> bool:
    shape, stride = shape_of(tensor), stride_of(tensor)
    if order is not None:
        shape, stride = permuted(shape, order), permuted(stride, order)
    return _is_zero(is_not_contiguous(shape, stride))


def _is_zero(size: Expr) -> bool:
    return size.is_constant and size.constant_value == 0


def _named(name: str, size: Expr) -> tuple[Workspace, ...]:
    return () if _is_zero(size) else (Workspace(name, size),)
