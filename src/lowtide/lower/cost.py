"""What a statement costs: floating-point operations and bytes moved, as expressions.

Matrix products, attention and convolutions are counted by their textbook formulas; everything else by one
operation per byte moved over four, which is what an elementwise fp32 kernel does.
"""

from collections.abc import Sequence

from lowtide.ir import Cost, numel
from lowtide.lower.workspace import Argument, Call
from lowtide.symbolic import Expr, const

_MATRIX_PRODUCTS = ("mm", "bmm", "addmm", "baddbmm")


def estimate_cost(call: Call | None, touched: Sequence[Expr]) -> Cost:
    """Estimate the cost of a statement.

    Args:
        call: The library call, if the statement is one.
        touched: Bytes of every buffer that the statement reads or writes.

    Returns:
        The cost. Heuristic: it ranks statements, nothing is proved by it.
    """
    bytes_moved = sum(touched, start=const(0))
    flops = None if call is None else _library_flops(call)
    return Cost(flops=bytes_moved // 4 if flops is None else flops, bytes_moved=bytes_moved)


def _library_flops(call: Call) -> Expr | None:
    name = call.operator.split(".")[1] if "." in call.operator else call.operator
    tensors = [a for a in call.arguments.values() if a.shape is not None]
    if name in _MATRIX_PRODUCTS and len(tensors) >= 2:
        return _product_flops(tensors[-2], tensors[-1])
    if name.startswith("_scaled_dot_product") and len(tensors) >= 3:
        query, key = tensors[0], tensors[1]
        if "backward" in name and len(tensors) >= 4:
            query, key = tensors[1], tensors[2]
        scores = _shape(query)[:-1]
        products = numel(scores) * _shape(key)[-2] * _shape(query)[-1] * 4
        return products * 5 // 2 if "backward" in name else products
    return None


def _product_flops(left: Argument, right: Argument) -> Expr:
    return numel(_shape(left)) * _shape(right)[-1] * 2


def _shape(argument: Argument) -> tuple[Expr, ...]:
    assert argument.shape is not None, "bug: a tensor argument without a shape"
    return argument.shape
