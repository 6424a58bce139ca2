"""Sorting, counting, indexing, pooling, groups: predicted workspace is the measured one, to the byte."""

from collections.abc import Callable
from itertools import product

import pytest
import torch
from workspace_meter import Case, argument_of, assert_predicted_is_measured, case, predict_workspace

from lowtide.lower.workspace import Call, CpuMachine, find_workspace

aten = torch.ops.aten


def _sorts(threads: int) -> list[Case]:
    found: list[Case] = []
    for shape in ((74,), (5003,), (70001,), (37, 51), (1, 51), (51, 1), (3, 5, 7)):
        for dtype in (torch.int64, torch.int32, torch.float32, torch.bfloat16, torch.bool):
            values = torch.zeros(shape, dtype=dtype)
            for axis in range(-1, len(shape) - 1):
                found += [
                    case(aten.sort.stable, values, stable=stable, dim=axis, threads=threads) for stable in (False, True)
                ]
                found.append(case(aten.sort.default, values.mT if len(shape) > 1 else values, axis, threads=threads))
    return found


def _topks(threads: int) -> list[Case]:
    values = torch.arange(37.0 * 51).reshape(37, 51)
    return [
        case(aten.topk.default, tensor, k, axis, True, is_sorted, threads=threads)
        for tensor in (values, values.mT, values.bfloat16(), values[:1], torch.zeros(3, 5000))
        for k in (1, 2)
        if k <= min(tensor.shape) or tensor.shape[0] > 1
        for axis in (-1, 0)
        if k <= tensor.shape[axis]
        for is_sorted in (True, False)
    ]


def _counts(threads: int) -> list[Case]:
    values = torch.arange(74.0).reshape(2, 37) % 4
    big = torch.zeros(100_000)
    found = [
        case(aten.histc.default, v, bins, 0, 3, threads=threads) for v in (values, values.mT, big) for bins in (4, 17)
    ]
    found.append(case(aten.histc.default, values.double(), 5, 0, 3, threads=threads))
    for dtype in (torch.float32, torch.bfloat16, torch.int32, torch.int64, torch.bool):
        numbers = torch.zeros(6, 5, dtype=dtype)
        for wanted in (None, torch.int32, torch.int64, torch.float32):
            found += [
                case(aten.cumsum.default, tensor, 0, dtype=wanted, threads=threads)
                for tensor in (numbers, numbers.mT, numbers[:1])
            ]
    return found


def _indexed(threads: int) -> list[Case]:
    rows, more = torch.zeros(37, 51), torch.ones(11, 51)
    at = torch.arange(11)
    grid = torch.zeros(11, 51, dtype=torch.int64)
    many = torch.arange(5000)[:, None].expand(5000, 64) % 7
    found = [
        case(aten.index.Tensor, rows, [at]),
        case(aten.index.Tensor, rows, [None, at]),
        case(aten.index.Tensor, rows, [at, at]),
        case(aten.index.Tensor, rows, [at[:, None], at[:3]]),
        case(aten.index_put.default, rows, [at], more),
        case(aten.index_put_.default, rows, [at], more, True),
        case(aten._unsafe_index_put.default, rows, [None, at], torch.ones(37, 11), True),
        case(aten.index_select.default, rows, 0, at),
        case(aten.index_select.default, rows.mT, 0, at),
        case(aten.gather.default, rows, 0, grid),
        case(aten.scatter_add_.default, rows, 0, grid, more),
        case(aten.scatter_add_.default, torch.zeros(7, 64), 0, many, torch.zeros(5000, 64)),
        case(aten.scatter.src, rows, 0, grid, more),
        case(aten.scatter_reduce_.two, rows, 0, grid, more, reduce="sum", include_self=True),
        case(aten.scatter_reduce_.two, rows, 0, grid, more, reduce="amax", include_self=False),
        case(aten.scatter_reduce.two, rows.mT, 1, grid.mT, more.mT, reduce="sum", include_self=True),
        case(aten.index_add.default, rows, 0, at, more),
        case(aten.embedding.default, rows, at),
        case(aten.embedding.default, rows.bfloat16(), grid),
        case(aten.embedding_dense_backward.default, more, at, 37, -1, False),
        case(aten.embedding_dense_backward.default, torch.zeros(51, 11).t(), at, 37, 0, False),
        case(aten.embedding_dense_backward.default, torch.zeros(1, 51).expand(11, 51), at, 37, 0, True),
        case(aten.nonzero.default, rows),
        case(aten.nonzero.default, (more > 0).t()),
        case(aten.nonzero.default, torch.ones(200, 300, dtype=torch.bool)),
        case(aten.randint.low_out, -(2**63), 2**63 - 1, [7], out=torch.empty(7, dtype=torch.int64)),
        case(aten.rand.default, [1000]),
        case(aten.randn.default, [1000]),
    ]
    return [Case(item.operator, item.args, item.kwargs, threads) for item in found]


def _pools(threads: int) -> list[Case]:
    found: list[Case] = []
    for layout in (torch.contiguous_format, torch.channels_last):
        for shape in ((3, 8, 17, 17), (1, 3, 9, 12), (2, 1, 8, 8)):
            image = torch.zeros(shape).contiguous(memory_format=layout)
            pooled, at = aten.max_pool2d_with_indices(image, [2, 2], [2, 2])
            small = torch.zeros(*shape[:2], 4, 4).contiguous(memory_format=layout)
            found += [
                case(aten.max_pool2d_with_indices.default, image, [2, 2], [2, 2]),
                case(
                    aten.max_pool2d_with_indices_backward.default,
                    pooled,
                    image,
                    [2, 2],
                    [2, 2],
                    [0, 0],
                    [1, 1],
                    False,
                    at,
                ),
                case(aten.avg_pool2d.default, image, [2, 2], [2, 2]),
                case(aten.avg_pool2d_backward.default, pooled, image, [2, 2], [2, 2], [0, 0], False, True, None),
                case(aten._adaptive_avg_pool2d.default, image, [4, 4]),
                case(aten._adaptive_avg_pool2d_backward.default, small, image),
                case(aten.adaptive_max_pool2d.default, image, [4, 4]),
            ]
    for shape in ((3, 8, 17, 17), (2, 1, 5, 7), (2, 3, 1, 1), (1, 3, 1, 6)):
        for first, second in product((torch.contiguous_format, torch.channels_last), repeat=2):
            small = torch.zeros(*shape[:2], 4, 4).contiguous(memory_format=first)
            image = torch.zeros(shape).contiguous(memory_format=second)
            found.append(case(aten._adaptive_avg_pool2d_backward.default, small, image))
    return [Case(item.operator, item.args, item.kwargs, threads) for item in found]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("make", [_sorts, _topks, _counts, _indexed, _pools])
def test_operators_take_what_is_predicted(make: Callable[[int], list[Case]], threads: int):
    assert_predicted_is_measured(make(threads))


@pytest.mark.parametrize("threads", [1, 2])
def test_products_per_expert_take_nothing(threads: int):
    moe = pytest.importorskip("transformers.integrations.moe")
    assert moe is not None
    experts = torch.ops.transformers
    cases: list[Case] = []
    for ends in ([1, 1, 22, 40], [0, 0, 0, 40], [10, 20, 30, 40]):
        at = torch.tensor(ends, dtype=torch.int32)
        rows, gradient = torch.zeros(40, 32), torch.zeros(40, 48)
        for weight in (torch.zeros(4, 32, 48), torch.zeros(4, 48, 32).mT):
            cases.append(case(experts.grouped_mm_fallback.default, rows, weight, at, threads=threads))
            cases.append(
                case(experts.grouped_mm_fallback_backward.default, rows, weight, at, gradient, threads=threads)
            )
    assert_predicted_is_measured(cases)
    assert {predict_workspace(item) for item in cases} == {0}


def test_an_operator_that_is_not_modelled_has_a_named_unknown_workspace():
    (found,) = find_workspace(Call("aten.linalg_svd.default", {}), CpuMachine())
    assert (found.name, found.size) == ("aten.linalg_svd.default", None)


def test_arguments_without_names_are_found_by_position():
    wide = case(aten.mm.default, torch.zeros(1, 8).expand(3, 8), torch.zeros(8, 2))
    (found,) = find_workspace(_unnamed(wide), CpuMachine())
    assert found.size is not None
    assert found.size.constant_value == 3 * 8 * 4


def _unnamed(item: Case) -> Call:
    return Call("extern_kernels.mm", {f"arg{at}": argument_of(value) for at, value in enumerate(item.args)})
