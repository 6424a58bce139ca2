"""Workspace of matrix products on the CPU: dense copies of operands that BLAS cannot read in place.

BLAS reads a matrix whose rows or columns are contiguous and do not overlap. Any other operand (expanded, or with gaps
in both axes) is copied first. Derived from ATen's source for float32 and float64, and for half-precision types where
oneDNN does not take them over; checked by measurement.
"""

from lowtide.ir import Workspace, item_bytes
from lowtide.lower.workspace.call import Argument, Call, argument
from lowtide.lower.workspace.layout import any_of, equals, is_at_least, is_one, shape_of, stride_of, tensor_size
from lowtide.lower.workspace.machine import CpuMachine
from lowtide.symbolic import Expr, const

_REDUCED = ("float16", "bfloat16")
_FULL = ("float32", "float64")
# Below this many multiplications a batched product is a plain loop over any layout.
_SMALL_PRODUCT = 400


def mm(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of `mm`: a copy of each operand that BLAS cannot read. Exact for a densely laid out result."""
    return _product(argument(call, 0, "self"), argument(call, 1, "mat2"), machine)


def addmm(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of `addmm`: as `mm`; the addend is copied into the result, which takes nothing."""
    return _product(argument(call, 1, "mat1"), argument(call, 2, "mat2"), machine)


def bmm(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of `bmm`; see `_batched_product`."""
    return _batched_product(argument(call, 0, "self"), argument(call, 1, "mat2"), machine)


def baddbmm(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of `baddbmm`: as `bmm`; the addend is copied into the result, which takes nothing."""
    return _batched_product(argument(call, 1, "batch1"), argument(call, 2, "batch2"), machine)


def _product(left: Argument, right: Argument, machine: CpuMachine) -> tuple[Workspace, ...]:
    if not _is_modelled(left, machine):
        return (Workspace("packed operands of a matrix product", None),)
    size = sum(
        ((1 - _is_readable(*shape_of(m), *stride_of(m))) * tensor_size(m) for m in (left, right)), start=const(0)
    )
    return _unless_zero(size)


def _batched_product(left: Argument, right: Argument, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Copies of one batch item at a time, and only on the slow path.

    Products of fewer than 400 multiplications are looped over. Full-precision products whose items are all contiguous
    or transposed go to one batched call. What remains runs `addmm` per batch item, copying as that does.
    """
    if not _is_modelled(left, machine):
        return (Workspace("packed operands of a matrix product", None),)
    _, rows, inner = shape_of(left)
    _, _, columns = shape_of(right)
    copies = const(0)
    for matrix in (left, right):
        (_, height, width), (_, down, across) = shape_of(matrix), stride_of(matrix)
        copies = copies + (1 - _is_readable(height, width, down, across)) * height * width * item_bytes(matrix.dtype)
    slow = is_at_least(rows * inner * columns, _SMALL_PRODUCT)
    if left.dtype in _FULL:
        whole = [_is_plain_item(*shape_of(m)[1:], *stride_of(m)[1:]) for m in (left, right)]
        slow = slow * (1 - whole[0] * whole[1])
    return _unless_zero(slow * copies)


def _is_modelled(matrix: Argument, machine: CpuMachine) -> bool:
    return matrix.dtype in _FULL or (matrix.dtype in _REDUCED and machine.packs_reduced is False)


def _is_readable(rows: Expr, columns: Expr, down: Expr, across: Expr) -> Expr:
    """1 where BLAS reads the matrix in place. An axis of length 1 is held to the same rule as a longer one."""
    return any_of(
        equals(down, 1) * is_at_least(across, rows),
        equals(across, 1) * is_at_least(down, columns),
    )


def _is_plain_item(rows: Expr, columns: Expr, down: Expr, across: Expr) -> Expr:
    return any_of(
        equals(across, 1) * any_of(is_one(rows), is_at_least(down, columns)),
        equals(down, 1) * any_of(is_one(columns), is_at_least(across, rows)),
    )


def _unless_zero(size: Expr) -> tuple[Workspace, ...]:
    if size.is_constant and size.constant_value == 0:
        return ()
    return (Workspace("dense copies of operands of a matrix product", size),)
