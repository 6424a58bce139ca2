"""Describes Inductor's nodes in lowtide's records: buffers and inputs as tensors, operator nodes as library calls."""

# Inductor's internals are untyped or typed for its own use; what they are is held by tests on every torch version.
# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

from typing import Any

import sympy
import torch
from torch._inductor import ir
from torch._inductor.utils import get_dtype_size
from torch._inductor.virtualized import V

from lowtide.lower.inductor.device_lines import PINNED
from lowtide.lower.joint import LibraryCall, Operand, TensorRecord


def tensor_record(name: str, node: Any) -> TensorRecord:
    """Describe an Inductor buffer, input or view.

    The size in bytes is that of its storage as allocated, padding included.
    """
    layout = node.get_layout() if not isinstance(node, ir.BaseView) else node.layout
    dtype = node.get_dtype()
    return TensorRecord(
        name=name,
        dtype=str(dtype),
        shape=tuple(sympy.sympify(s) for s in layout.size),
        stride=tuple(sympy.sympify(s) for s in layout.stride),
        offset=sympy.sympify(layout.offset),
        size_bytes=sympy.sympify(_storage_size(node)) * get_dtype_size(dtype),
        device=_device_of(node),
    )


def _device_of(node: Any) -> str:
    pinned = isinstance(node, ir.Buffer) and node.get_is_pinned()
    return PINNED if pinned else str(node.get_device())


def _storage_size(node: Any) -> Any:
    if isinstance(node, ir.Buffer):
        return V.graph.get_allocation_storage_size(node)
    return node.get_layout().storage_size()


def constant_record(name: str, value: torch.Tensor) -> TensorRecord:
    """Describe a tensor that the graph holds."""
    return TensorRecord(
        name=name,
        dtype=str(value.dtype),
        shape=tuple(sympy.Integer(s) for s in value.shape),
        stride=tuple(sympy.Integer(s) for s in value.stride()),
        offset=sympy.Integer(value.storage_offset()),
        size_bytes=sympy.Integer(value.untyped_storage().nbytes()),
        device=str(value.device),
    )


def workspace_record(argument: Any) -> TensorRecord:
    """Describe the scratch memory of a generated kernel (`WorkspaceArg`)."""
    count = sympy.sympify(argument.count)
    return TensorRecord(
        name=argument.get_name(),
        dtype=str(argument.dtype),
        shape=(count,),
        stride=(sympy.Integer(1),),
        offset=sympy.Integer(0),
        size_bytes=count * get_dtype_size(argument.dtype),
        device=str(argument.device),
    )


def library_call(node: Any) -> LibraryCall | None:
    """Describe the operator that an extern node calls; None where it has no name."""
    operator = node.op_overload
    if operator is None or not hasattr(operator, "_schema"):
        name = node.get_kernel_name()
        if not name:
            return None
        plain = tuple((f"arg{i}", _operand(x)) for i, x in enumerate(node.inputs))
        return LibraryCall(str(name), plain)
    if isinstance(node, ir.FallbackKernel):
        args, kwargs = node.unflatten_args(node.inputs, node.constant_args)
    else:
        args, kwargs = [*node.inputs, *node.constant_args], dict(node.kwargs)
    operands: list[tuple[str, Operand]] = []
    parameters = operator._schema.arguments
    for parameter, value in zip(parameters, args, strict=False):
        operands.append((parameter.name, _operand(value)))
    for name, value in kwargs.items():
        operands.append((name, _operand(value)))
    return LibraryCall(str(operator), tuple(operands))


def _operand(value: Any) -> Operand:
    if isinstance(value, ir.IRNode) and not isinstance(value, ir.ShapeAsConstantBuffer):
        try:
            layout = value.get_layout()
            name = value.get_name()
        except (NotImplementedError, AttributeError):
            return Operand(None, None)
        return Operand(
            TensorRecord(
                name,
                str(value.get_dtype()),
                tuple(sympy.sympify(s) for s in value.get_size()),
                tuple(sympy.sympify(s) for s in layout.stride),
                sympy.sympify(layout.offset),
                sympy.Integer(0),
                str(value.get_device()),
            )
        )
    if isinstance(value, ir.ShapeAsConstantBuffer):
        return Operand(None, value.expr)
    if isinstance(value, (list, tuple)):
        return Operand(None, [_operand(v) if isinstance(v, ir.IRNode) else v for v in value])
    return Operand(None, value)


def viewed_operand(node: Any) -> str | None:
    """Name the buffer that an operator returns a view of, as its schema says; None where it returns something new.

    Inductor calls view operators like others where it makes no code, as for complex numbers.
    """
    operator = node.op_overload
    if not isinstance(operator, torch._ops.OpOverload) or not operator.is_view or not node.inputs:
        return None
    return str(node.inputs[0].get_name())


def is_random(node: Any) -> bool:
    """Whether the operator draws random numbers."""
    operator = node.op_overload
    return operator is not None and torch.Tag.nondeterministic_seeded in getattr(operator, "tags", ())


def has_side_effect(node: Any) -> bool:
    """Whether the operator does more than its results and mutations tell."""
    return bool(getattr(node, "has_side_effects", lambda: False)())
