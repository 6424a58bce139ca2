"""Convolutions on the CPU: predicted workspace is the measured one, to the byte, or a bound where it says so."""

import pytest
import torch
from workspace_meter import Case, argument_of, assert_predicted_is_measured, case, measure_workspaces, predict_workspace

from lowtide.lower.workspace import Call, CpuMachine, find_workspace

aten = torch.ops.aten
NEEDS_AVX2 = pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() != "AVX2", reason="the formula is of oneDNN's AVX2 kernels"
)


def _convolution(image: torch.Tensor, weight: torch.Tensor, stride: int, padding: int, threads: int) -> Case:
    axes = image.dim() - 2
    settings = ([stride] * axes, [padding] * axes, [1] * axes, False, [0] * axes, 1)
    return case(aten.convolution.default, image, weight, None, *settings, threads=threads)


def _over_sequences(threads: int) -> list[Case]:
    kernels = [
        (16, 64, 3, 1, 1, 101),
        (3, 10, 3, 1, 1, 200),
        (5, 10, 3, 2, 1, 37),
        (80, 64, 3, 1, 1, 270),
        (64, 64, 3, 2, 1, 151),
        (64, 64, 1, 1, 0, 160),
        (8, 8, 1, 1, 0, 30),
        (1, 8, 3, 1, 1, 64),
        (12, 20, 7, 3, 2, 97),
        (64, 24, 5, 1, 0, 331),
        (7, 9, 3, 1, 1, 50),
    ]
    return [
        _convolution(torch.zeros(n, ic, length), torch.zeros(oc, ic, kernel), stride, padding, threads)
        for n in (1, 3, 17)
        for ic, oc, kernel, stride, padding, length in kernels
    ]


SHORT = ((1, 1, 0), (1, 2, 0), (3, 1, 1), (3, 2, 1), (4, 4, 0), (8, 8, 0))


def _over_images(
    threads: int, channels: tuple[int, ...], kernels: tuple[tuple[int, int, int], ...] = SHORT
) -> list[Case]:
    layout = torch.channels_last
    return [
        _convolution(
            torch.zeros(n, ic, side, side).contiguous(memory_format=layout),
            torch.zeros(oc, ic, kernel, kernel).contiguous(memory_format=layout),
            stride,
            padding,
            threads,
        )
        for n, side in ((1, 17), (1, 52), (3, 15))
        for ic in (3, 40)
        for oc in channels
        for kernel, stride, padding in kernels
        if side >= kernel
    ]


@NEEDS_AVX2
@pytest.mark.parametrize("threads", [1, 2])
def test_convolutions_over_sequences_take_what_is_predicted(threads: int):
    assert_predicted_is_measured(_over_sequences(threads))


@NEEDS_AVX2
@pytest.mark.parametrize("threads", [1, 2])
def test_channels_last_convolutions_take_what_is_predicted(threads: int):
    assert_predicted_is_measured(_over_images(threads, (1, 8, 20, 48, 96)))


@NEEDS_AVX2
def test_packed_weights_of_wide_convolutions_are_bounded():
    wide, long = (50, 64, 100), ((16, 16, 0),)
    cases = _over_images(2, wide) + _over_images(2, (20, 64), long) + _over_images(1, (20,), long)
    measured = measure_workspaces(cases)
    for item, found in zip(cases, measured, strict=True):
        bound = predict_workspace(item)
        assert bound is not None
        weight = item.args[1]
        assert isinstance(weight, torch.Tensor)
        assert found <= bound <= found + 32 * weight[0].numel() * 4 + 8 * 4096 * item.threads, str(item)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_unrolled_convolutions_and_their_gradients_take_what_is_predicted(dtype: torch.dtype, threads: int):
    cases: list[Case] = []
    for shape, kernel, stride, padding in (
        ((1, 8, 17, 17), (16, 8, 3, 3), 2, 0),
        ((1, 4, 9, 11), (6, 4, 3, 2), 1, 1),
        ((1, 16, 101), (24, 16, 3), 1, 1),
        ((1, 16, 30), (24, 16, 3), 2, 1),
    ):
        for layout in (torch.contiguous_format, torch.channels_last)[: len(shape) - 2]:
            image = torch.zeros(shape, dtype=dtype).contiguous(memory_format=layout)
            weight = torch.zeros(kernel, dtype=dtype).contiguous(memory_format=layout)
            forward = _convolution(image, weight, stride, padding, threads)
            if machine_is_modelled(dtype):
                cases.append(forward)
            result = forward.run()
            assert isinstance(result, torch.Tensor)
            for wanted in ([True, True, True], [False, True, True], [True, False, False]):
                settings = ([kernel[0]], *forward.args[3:], wanted)
                cases.append(case(aten.convolution_backward.default, result, image, weight, *settings, threads=threads))
    assert_predicted_is_measured(cases)


def machine_is_modelled(dtype: torch.dtype) -> bool:
    return dtype == torch.float64 or torch.backends.cpu.get_cpu_capability() == "AVX2"


def test_is_unknown_on_an_instruction_set_that_is_not_modelled():
    item = _convolution(torch.zeros(2, 16, 50), torch.zeros(8, 16, 3), 1, 1, 1)
    names = ("input", "weight", "bias", "stride", "padding", "dilation", "transposed", "output_padding", "groups")
    arguments = {name: argument_of(value) for name, value in zip(names, item.args, strict=True)}
    (found,) = find_workspace(Call(str(item.operator), arguments), CpuMachine(onednn=None))
    assert found.size is None
