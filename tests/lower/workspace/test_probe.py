"""The probe measures what a formula predicts, and what no formula knows."""

import torch
from workspace_meter import argument_of

from lowtide.lower.workspace import Argument, Call, CpuMachine, find_workspace
from lowtide.lower.workspace.probe import measure_workspace
from lowtide.symbolic import const, dim, evaluate


def test_probe_agrees_with_a_formula():
    shape = (dim("batch"), const(2), dim("length"), const(8))
    stride = (2 * 8 * dim("length"), const(8), const(16), const(1))
    tensor = Argument(shape, stride, "float32")
    call = Call(
        "aten._scaled_dot_product_flash_attention_for_cpu.default", {"query": tensor, "key": tensor, "value": tensor}
    )
    sizes = {"batch": 3, "length": 197}
    (predicted,) = find_workspace(call, CpuMachine())
    assert predicted.size is not None
    threads = 2
    assert measure_workspace(call, sizes, threads=threads) == evaluate(predicted.size, sizes | {"threads": threads})


def test_probe_measures_what_no_formula_knows():
    image, weight = torch.zeros(2, 8, 9, 9), torch.zeros(4, 8, 3, 3)
    arguments = {
        "grad_output": argument_of(torch.zeros(2, 4, 9, 9)),
        "input": argument_of(image),
        "weight": argument_of(weight),
        "bias_sizes": argument_of([4]),
        "stride": Argument(value=(Argument(value=1), Argument(value=const(1)))),
        "padding": argument_of([1, 1]),
        "dilation": argument_of([1, 1]),
        "transposed": argument_of(False),
        "output_padding": argument_of([0, 0]),
        "groups": argument_of(1),
        "output_mask": argument_of([True, True, False]),
    }
    call = Call("aten.convolution_backward.default", arguments)
    (unknown,) = find_workspace(call, CpuMachine())
    assert unknown.size is None
    before = torch.get_num_threads()
    assert measure_workspace(call, {}, threads=1) >= image.numel() * 4
    assert torch.get_num_threads() == before
