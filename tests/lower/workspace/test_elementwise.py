"""What elementwise operators, copies and reductions take on CPU: predicted from metadata, measured by running them."""

import pytest
import torch
import torch._inductor.decomposition
from workspace_meter import Case, assert_predicted_is_measured, case, predict_workspace

aten, prims = torch.ops.aten, torch.ops.prims

FLOATS = torch.randn(100, 30)
MORE_FLOATS = torch.randn(100, 30)
DOUBLES = FLOATS.double()
HALVES = FLOATS.bfloat16()
INTEGERS = torch.randint(0, 9, (100, 30))
TRUTHS = FLOATS > 0
ROW, COLUMN = torch.randn(30), torch.randn(100, 1)
NUMBER, WHOLE_NUMBER, EXACT_NUMBER = torch.tensor(2.0), torch.tensor(2), torch.tensor(2.0, dtype=torch.float64)
MATRIX = torch.randn(70, 80)
LARGE = torch.randn(300, 1000)

TENSORS = [FLOATS, DOUBLES, HALVES, INTEGERS, TRUTHS, NUMBER, WHOLE_NUMBER, EXACT_NUMBER]
NUMBERS = [2, 2.5, True]


def _binary_cases() -> list[Case]:
    cases = [
        case(operator, left, right)
        for operator in (aten.mul.Tensor, aten.add.Tensor, aten.div.Tensor, aten.eq.Tensor, aten.maximum.default)
        for left in TENSORS
        for right in TENSORS
    ]
    cases += [
        case(operator, left, right)
        for operator in (aten.mul.Tensor, aten.add.Tensor, aten.div.Tensor, aten.gt.Scalar, aten.rsub.Scalar)
        for left in TENSORS
        for right in NUMBERS
        if not (operator is aten.rsub.Scalar and (left is TRUTHS or right is True))
    ]
    cases += [case(aten.mul.Tensor, FLOATS, other) for other in (ROW, COLUMN, ROW.double(), COLUMN.double())]
    return cases


def test_binary_operators_convert_operands_and_numbers():
    assert_predicted_is_measured(_binary_cases())


def test_other_elementwise_operators_convert_operands():
    assert_predicted_is_measured([
        *(case(op, x) for op in (aten.exp.default, aten.rsqrt.default, aten.sigmoid.default, aten.erf.default)
          for x in (FLOATS, DOUBLES, INTEGERS, TRUTHS, NUMBER)),
        case(aten.pow.Tensor_Scalar, FLOATS, 2), case(aten.pow.Tensor_Scalar, FLOATS, 2.5),
        case(aten.pow.Tensor_Tensor, FLOATS, INTEGERS), case(aten.pow.Scalar, 2.0, FLOATS),
        case(aten.pow.Scalar, 2, INTEGERS), case(aten.div.Tensor_mode, INTEGERS, 3, rounding_mode="floor"),
        case(aten.clamp.default, FLOATS, 0, 1), case(aten.clamp.default, INTEGERS, 0, 2.5),
        case(aten.clamp_min.default, INTEGERS, 0.5), case(aten.addcmul.default, FLOATS, FLOATS, INTEGERS),
        case(aten.where.self, TRUTHS, FLOATS, NUMBER), case(aten.where.self, TRUTHS, FLOATS, DOUBLES),
        case(aten.where.self, TRUTHS, NUMBER, WHOLE_NUMBER), case(aten.logical_and.default, FLOATS, TRUTHS),
        case(aten.bitwise_and.Scalar, INTEGERS, 1), case(aten.relu.default, FLOATS), case(aten.neg.default, INTEGERS),
        case(prims.convert_element_type.default, FLOATS, torch.float64), case(aten.full.default, [3, 4], 1.0),
        case(aten.select_scatter.default, FLOATS, ROW, 0, 1), case(aten.tril.default, MATRIX),
        case(aten.cat.default, [FLOATS, MORE_FLOATS], 1), case(aten.cat.default, [MATRIX.t(), MATRIX.t()]),
    ])  # fmt: skip


def test_copies_transpose_through_a_block():
    dense = torch.contiguous_format
    assert_predicted_is_measured([
        case(aten.clone.default, MATRIX.t(), memory_format=dense), case(aten.clone.default, MATRIX.t()),
        case(aten.clone.default, FLOATS.t(), memory_format=dense),
        case(aten.clone.default, MATRIX, memory_format=dense),
        case(aten.clone.default, torch.randn(4, 70, 80).transpose(1, 2), memory_format=dense),
        case(aten._to_copy.default, MATRIX.t(), memory_format=dense),
        case(aten._to_copy.default, MATRIX.t(), dtype=torch.float64, memory_format=dense),
        case(aten.copy_.default, torch.empty(80, 70), MATRIX.t()),
        case(aten.copy_.default, torch.empty(70, 80).t(), MATRIX.t()),
        case(aten.copy_.default, torch.empty(80, 70, dtype=torch.float64), MATRIX.t()),
        case(aten.copy_.default, torch.empty(80, 70), MATRIX[0, :70]),
    ])  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_reductions_convert_and_keep_partial_results(threads: int):
    operands = [LARGE, LARGE.double(), LARGE > 0, LARGE.int(), FLOATS, LARGE.t(), LARGE[:, :50]]
    cases = [case(op, x, threads=threads) for op in (aten.sum.default, aten.prod.default) for x in operands]
    cases += [case(aten.sum.dim_IntList, x, dims, threads=threads) for x in operands for dims in ([0], [-1], [0, 1])]
    cases += [case(aten.mean.dim, x, [0, 1], threads=threads) for x in (LARGE, FLOATS, LARGE.double())]
    cases += [case(aten.mean.dim, LARGE, [0], dtype=torch.float64, threads=threads)]
    cases += [case(aten.amax.default, x, dims, threads=threads) for x in (LARGE, FLOATS) for dims in ([0], [], [0, 1])]
    cases += [case(op, LARGE > 0, threads=threads) for op in (aten.any.default, aten.all.default)]
    cases += [case(aten.var_mean.correction, LARGE, [0], correction=0, threads=threads)]
    cases += [case(aten.sum.dim_IntList, LARGE[:1], [1], threads=threads), case(aten.argmax.default, LARGE)]
    assert_predicted_is_measured(cases)


def test_mixed_concatenation_is_not_known():
    assert predict_workspace(case(aten.cat.default, [FLOATS, DOUBLES])) is None


def test_repetitions_fused_products_and_masked_indices():
    indices = torch.randint(0, 9, (400,))
    more = torch.randint(0, 8, (8,))
    accumulate = aten._unsafe_masked_index_put_accumulate.default
    repeated = ((FLOATS, [2, 1]), (FLOATS, [1, 2, 1]), (ROW, [3]), (MATRIX.t(), [2, 3]))
    fused = ((FLOATS, COLUMN, ROW), (ROW, ROW, FLOATS), (FLOATS, FLOATS, NUMBER))
    counted = {"start": 0, "step": 1, "dtype": torch.int64, "device": torch.device("cpu"), "requires_grad": False}
    some = indices[:20].view(4, 5)
    assert_predicted_is_measured([
        *(case(aten.repeat.default, x, r) for x, r in repeated),
        *(case(prims.fma.default, *x) for x in fused),
        case(prims.iota.default, 64, **counted),
        case(accumulate, torch.zeros(50, 16), torch.ones(4, 5, 1) > 0, [some], torch.randn(4, 5, 16)),
        case(accumulate, torch.zeros(9, 1), torch.ones(400, 1) > 0, [indices], torch.randn(400, 1)),
        case(accumulate, torch.zeros(9, 8), torch.ones(8) > 0, [indices[:8], more], torch.randn(8)),
        case(accumulate, torch.zeros(5, 9, 8), torch.ones(5, 8) > 0, [None, indices[:8], more], torch.randn(5, 8)),
    ])  # fmt: skip
