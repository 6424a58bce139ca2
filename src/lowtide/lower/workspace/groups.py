"""Workspace of products per group of rows (mixtures of experts) on the CPU."""

from lowtide.ir import Workspace
from lowtide.lower.workspace.call import Argument, Call, argument
from lowtide.lower.workspace.layout import any_of, equals, is_at_least, shape_of, stride_of
from lowtide.lower.workspace.machine import CpuMachine
from lowtide.symbolic import Expr


def grouped_mm_fallback(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of `transformers::grouped_mm_fallback` and its backward: a loop of `mm` into slices of the results.

    Nothing when rows of every operand lie densely, in any group: how many rows a group has is known only at run time.
    """
    if argument(call, 0, "input").dtype not in ("float32", "float64") and machine.packs_reduced is not False:
        return (Workspace(call.operator, None),)
    operands = [argument(call, 0, "input")]
    if "grad_output" in call.arguments:
        operands.append(argument(call, 3, "grad_output"))
    if all(_has_dense_rows(operand) for operand in operands) and _has_dense_items(argument(call, 1, "weight")):
        return ()
    return (Workspace(call.operator, None),)


def _has_dense_rows(matrix: Argument) -> bool:
    (_, width), (down, across) = shape_of(matrix), stride_of(matrix)
    return _is_certain(equals(across, 1) * is_at_least(down, width))


def _has_dense_items(weight: Argument) -> bool:
    (_, height, width), (_, down, across) = shape_of(weight), stride_of(weight)
    return _is_certain(
        any_of(equals(across, 1) * is_at_least(down, width), equals(down, 1) * is_at_least(across, height))
    )


def _is_certain(indicator: Expr) -> bool:
    return indicator.is_constant and indicator.constant_value == 1
