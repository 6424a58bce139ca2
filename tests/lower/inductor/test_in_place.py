"""In-place permission: where loops agree on every element, storage is shared; where they do not, it never is."""

from collections.abc import Callable

import torch
from torch import Tensor

import lowtide
from lowtide.ir import Program


def run_compiled(function: Callable[[Tensor, Tensor], object]) -> tuple[Callable[[int], bool], Callable[[], Program]]:
    """Compile for inference; returns a check against eager at a size, and the program that runs."""
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="lowtide", dynamic=True, options={"fallback": False})
    weight = torch.randn(24, 24)

    def agrees(rows: int) -> bool:
        x = torch.randn(rows, 24)
        with torch.no_grad():
            ours, theirs = compiled(x, weight), function(x, weight)
        pairs = zip(torch.utils._pytree.tree_leaves(ours), torch.utils._pytree.tree_leaves(theirs), strict=True)
        return all(torch.allclose(a, b, rtol=1e-5, atol=1e-5) for a, b in pairs)

    return agrees, lambda: lowtide.explain(compiled).programs[0].program


def shares(program: Program) -> bool:
    """Whether some buffer has two values that are not views of each other: one took over from the other."""
    views = {name for s in program.statements if s.op == "view" for name in s.defines}
    return any(len([v for v in program.values_in(b) if v not in views]) > 1 for b in program.buffers)


def test_an_elementwise_result_takes_over_its_dying_operand() -> None:
    agrees, program = run_compiled(lambda x, w: (x @ w).relu() * 3 + 1)
    assert agrees(5)
    assert agrees(64)
    assert shares(program())


def test_an_operand_read_transposed_is_left_alone() -> None:
    def both_ways(x: Tensor, w: Tensor) -> Tensor:
        z = (x @ w).t() @ x  # square: 24 x 24
        return z * 2 + z.t()

    agrees, program = run_compiled(both_ways)
    assert agrees(7)
    assert agrees(33)
    assert not shares(program())


def test_an_operand_that_a_later_loop_reads_is_left_alone() -> None:
    def two_uses(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        z = x @ w
        return z * 2, z.cumsum(0), (z.flip(0) - z.mean(0)).exp()

    agrees, _ = run_compiled(two_uses)
    assert agrees(6)
    assert agrees(40)


def test_a_softmax_takes_over_what_its_reductions_have_read() -> None:
    agrees, _ = run_compiled(lambda x, w: (x @ w).softmax(-1) @ w)
    assert agrees(9)
    assert agrees(50)


def test_a_kernel_of_two_results_takes_over_both_its_operands() -> None:
    def two_results(x: Tensor, w: Tensor) -> Tensor:
        y, z = x @ w, x.sin() @ w
        return (y * z) @ w.mT + (y.tanh() - z) @ w

    agrees, program = run_compiled(two_results)
    assert agrees(7)
    assert agrees(64)
    kernel = next(s for s in program().statements if s.op.startswith("cpp_") and len(s.defines) == 2)
    buffers = program().values
    assert {buffers[v].buffer for v in kernel.defines} == {buffers[v].buffer for v in kernel.reads}


def test_an_operand_that_another_body_of_the_kernel_reads_is_left_alone() -> None:
    def normalise_and_shift(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        y = x @ w
        return y * 2, y - y.mean(-1, keepdim=True)

    agrees, _ = run_compiled(normalise_and_shift)
    assert agrees(7)
    assert agrees(64)
