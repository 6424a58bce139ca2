"""Workspace of elementwise operators on the CPU: operands that are converted before the loop runs.

ATen's loops read one element type. Every operand of another type is converted as a whole first, and every plain number
becomes a tensor of its own. Both stay until the operator returns, so they add to the result. Derived from ATen's
TensorIterator and checked by measurement.
"""

from collections.abc import Sequence
from types import MappingProxyType

from lowtide.ir import Workspace, item_bytes, numel
from lowtide.lower.workspace.call import Argument, Call
from lowtide.lower.workspace.layout import equals, is_at_least, is_not_contiguous, shape_of, stride_of
from lowtide.lower.workspace.machine import CpuMachine
from lowtide.lower.workspace.promotion import common_type, is_number, number_type
from lowtide.symbolic import Expr, const

_BLOCK = 60 * 60
"""Elements of the block through which ATen transposes a matrix while copying it."""


def free(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """No workspace."""
    return ()


def binary(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of an operator of two operands that computes in their common type."""
    return _converted(_operands(call, 2), float_at_least=False)


def division(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of a division: of integers it is one of floats, unless it rounds."""
    rounding = call.arguments.get("rounding_mode")
    return _converted(_operands(call, 2), float_at_least=rounding is None or rounding.value is None)


def float_function(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of a function of one operand that computes in floats."""
    return _converted(_operands(call, 1), float_at_least=True)


def ternary(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of an operator of three tensors that computes in their common type."""
    return _converted(_operands(call, 3), float_at_least=False)


def clamp(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of a clamp: a conversion of its operand where a bound is of a higher category.

    Bounds that are tensors are operands like others; those that are numbers become no tensors.
    """
    operands = [a for a in call.arguments.values() if a.shape is not None or is_number(a)]
    wanted = common_type(operands)
    return _bytes(_conversions([a for a in operands if a.shape is not None], wanted))


def fused_product(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of a product and sum rounded once (`prims.fma`) in float32: one intermediate result."""
    operands = _operands(call, 3)
    longest = max((operand.shape or () for operand in operands), key=len)
    if any(operand.dtype != "float32" for operand in operands):
        return (Workspace(call.operator, None),)
    lengths: list[Expr] = []
    for axis in range(-len(longest), 0):
        found = {o.shape[axis] for o in operands if o.shape is not None and len(o.shape) >= -axis} - {const(1)}
        if len(found) > 1:
            return (Workspace(call.operator, None),)
        lengths.extend(found)
    return _bytes(numel(lengths) * item_bytes("float32"))


def repeat(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of a repetition: 32 bytes for each axis."""
    repeats = call.arguments["repeats"].value
    return _bytes(const(32 * len(repeats))) if isinstance(repeats, tuple) else (Workspace(call.operator, None),)


def power(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of a power: an exponent that is a number becomes no tensor."""
    return clamp(call, machine) if ".Tensor_Scalar" in call.operator else binary(call, machine)


def where(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of a choice between two tensors by a truth value."""
    condition, *choices = list(call.arguments.values())
    if condition.dtype != "bool" or any(choice.shape is None for choice in choices):
        return (Workspace(call.operator, None),)
    return _converted(choices, float_at_least=False)


def concatenation(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of a concatenation: none among tensors of one type."""
    parts = next(iter(call.arguments.values())).value
    types = {part.dtype for part in parts if isinstance(part, Argument)} if isinstance(parts, tuple) else set[str]()
    return () if len(types) == 1 else (Workspace(call.operator, None),)


def copy(call: Call, machine: CpuMachine) -> tuple[Workspace, ...]:
    """Workspace of a copy: a block of 60 x 60 elements where a matrix is transposed on the way."""
    operands = list(call.arguments.values())
    source = operands[1] if call.operator.partition(".")[2].startswith("copy") else operands[0]
    keeps_layout = call.operator.partition(".")[2].startswith(("clone", "_to_copy"))
    wanted = call.arguments.get("memory_format")
    if keeps_layout and (wanted is None or str(wanted.value) != "torch.contiguous_format"):
        return ()  # a dense source is copied as it lies, and any other takes the plain loop
    target = call.arguments.get("dtype")
    kept = source.dtype if target is None or target.value is None else str(target.value).removeprefix("torch.")
    if not keeps_layout:
        kept = operands[0].dtype
        if operands[0].shape is None or source.shape is None or len(shape_of(operands[0])) != len(shape_of(source)):
            return ()
    shape, stride = shape_of(source), stride_of(source)
    if len(shape) != 2 or kept != source.dtype:
        return ()
    transposed = equals(stride[0], 1) * equals(stride[1], shape[0]) * is_at_least(numel(shape), _BLOCK)
    if not keeps_layout:
        given = shape_of(operands[0])
        dense = 1 - is_not_contiguous(given, stride_of(operands[0]))
        transposed = transposed * dense * equals(given[0], shape[0]) * equals(given[1], shape[1])
    return _bytes(transposed * (_BLOCK * item_bytes(source.dtype)))


def _operands(call: Call, count: int) -> list[Argument]:
    """The first tensors and numbers among the arguments."""
    return [a for a in call.arguments.values() if a.shape is not None or is_number(a)][:count]


def _converted(operands: Sequence[Argument], *, float_at_least: bool) -> tuple[Workspace, ...]:
    return _bytes(_conversions(operands, common_type(operands, float_at_least=float_at_least)))


def _conversions(operands: Sequence[Argument], wanted: str) -> Expr:
    size = const(0)
    for operand in operands:
        if operand.shape is None:
            own = number_type(operand)
            size = size + item_bytes(own) + (item_bytes(wanted) if own != wanted else 0)
        elif operand.dtype != wanted:
            size = size + numel(operand.shape) * item_bytes(wanted)
    return size


def _bytes(size: Expr) -> tuple[Workspace, ...]:
    return () if size == const(0) else (Workspace("converted operands", size),)


_BINARY = (
    *("add", "sub", "mul", "rsub", "maximum", "minimum", "fmax", "fmin", "fmod", "remainder", "floor_divide"),
    *("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor"),
    *("bitwise_and", "bitwise_or", "bitwise_xor", "__and__", "__or__", "__xor__"),
)
_FLOAT_FUNCTIONS = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "sigmoid", "erf", "erfc"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
)
# For arguments of one type, which is what these operators are given.
_FREE = (
    *("relu", "neg", "abs", "sign", "sgn", "floor", "ceil", "round", "trunc", "isnan", "isinf", "logical_not"),
    *("bitwise_not", "leaky_relu", "elu", "hardtanh", "silu", "gelu", "gelu_backward", "nan_to_num", "threshold"),
    *("threshold_backward", "sigmoid_backward", "tanh_backward", "masked_fill", "fill", "hypot", "copysign"),
    *("full", "full_like", "zeros", "zeros_like", "ones", "ones_like", "empty_like", "new_zeros", "new_full"),
    *("new_ones", "new_empty", "new_empty_strided", "empty_strided", "scalar_tensor", "arange", "linspace", "eye"),
    *("select_scatter", "slice_scatter", "tril", "triu", "roll", "flip", "constant_pad_nd", "lift_fresh_copy"),
    *("max", "min", "argmax", "argmin", "var_mean", "var", "bernoulli", "rand_like", "randn_like", "resize_as"),
)
ELEMENTWISE = MappingProxyType(
    {
        **{f"aten.{name}": free for name in _FREE},
        "prims.convert_element_type": free,
        "prims.iota": free,
        "prims.fma": fused_product,
        "aten.repeat": repeat,
        **{f"aten.{name}": binary for name in _BINARY},
        **{f"aten.{name}": float_function for name in _FLOAT_FUNCTIONS},
        "aten.div": division,
        "aten.true_divide": division,
        "aten.atan2": division,
        "aten.addcmul": ternary,
        "aten.addcdiv": ternary,
        "aten.pow": power,
        "aten.clamp": clamp,
        "aten.clamp_min": clamp,
        "aten.clamp_max": clamp,
        "aten.where": where,
        "aten.cat": concatenation,
        "aten.clone": copy,
        "aten.copy": copy,
        "aten._to_copy": copy,
    }
)
"""Formulas of elementwise operators and copies, by operator."""
