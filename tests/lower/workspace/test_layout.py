"""Indicators of layouts: settled where the layout is, an expression where it depends on the sizes."""

from lowtide.ir import contiguous_strides
from lowtide.lower.workspace import Argument, Call, CpuMachine, find_workspace
from lowtide.lower.workspace.layout import any_of
from lowtide.symbolic import const, dim, evaluate


def test_an_indicator_that_is_always_one_settles_the_choice() -> None:
    open_question = 1 - dim("n")
    assert any_of(open_question, const(1)) == 1
    assert any_of(const(0), const(0)) == 0
    assert evaluate(any_of(open_question), {"n": 1}) == 0


def test_a_product_of_contiguous_and_transposed_matrices_has_no_workspace_term_at_any_size() -> None:
    rows, inner, columns = dim("rows"), dim("inner"), dim("columns")
    left = Argument(shape=(rows, inner), stride=contiguous_strides((rows, inner)), dtype="float32")
    transposed = Argument(shape=(inner, columns), stride=(const(1), inner), dtype="float32")
    assert find_workspace(Call("aten.mm.default", {"self": left, "mat2": transposed}), CpuMachine()) == ()
