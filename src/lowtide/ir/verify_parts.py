"""Verifies the parts of a program that have no order: names, kinds, element types, bindings, variables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lowtide.ir.defects import Defect, VerificationError
from lowtide.ir.dtypes import is_dtype
from lowtide.ir.program import BufferKind, DimBinding, Program
from lowtide.symbolic import Expr, bounds, render


def verify_parts(program: Program) -> None:
    """Check everything that does not depend on the order of statements.

    Raises:
        VerificationError: At the first defect.
    """
    _verify_names(program)
    _verify_owners(program)
    _verify_dims_known_to_scope(program)
    _verify_sizes(program)
    for binding in program.entry_dims:
        _verify_binding(program, binding)


def _verify_names(program: Program) -> None:
    for what, parts in (("buffer", program.buffers), ("value", program.values)):
        for name, part in parts.items():
            if part.name != name:
                raise VerificationError(
                    Defect.NAME_MISMATCH,
                    program,
                    subject=f"{what} '{name}'",
                    found=f"the {what} filed under '{name}' is called '{part.name}'",
                    fix="file every part under its own name",
                )
    for value in program.values.values():
        if value.name in program.scope.ranges:
            raise VerificationError(
                Defect.AMBIGUOUS_NAME,
                program,
                subject=f"value '{value.name}'",
                found=f"'{value.name}' is a value and a dimension variable",
                fix="rename the value",
            )
        if value.buffer not in program.buffers:
            raise VerificationError(
                Defect.UNKNOWN_BUFFER,
                program,
                subject=f"value '{value.name}'",
                found=f"value '{value.name}' names buffer '{value.buffer}'",
                statement=program.definer(value.name),
                fix="add the buffer, or correct its name",
            )
        if not is_dtype(value.dtype):
            raise VerificationError(
                Defect.UNKNOWN_DTYPE,
                program,
                subject=f"value '{value.name}'",
                found=f"value '{value.name}' has element type '{value.dtype}'",
                statement=program.definer(value.name),
                fix="use a name that lowtide.ir.is_dtype accepts, such as float32",
            )
    seen: dict[str, int] = {}
    for number, statement in enumerate(program.statements):
        if statement.name in seen:
            raise VerificationError(
                Defect.DUPLICATE_STATEMENT,
                program,
                subject=f"statement '{statement.name}'",
                found=f"statements {seen[statement.name]} and {number} are both called '{statement.name}'",
                statement=number,
                fix="give each statement a name of its own",
            )
        seen[statement.name] = number
        for name in statement.reads + statement.writes + statement.defines:
            if name not in program.values:
                raise VerificationError(
                    Defect.UNKNOWN_VALUE,
                    program,
                    subject=f"value '{name}'",
                    found=f"statement '{statement.name}' names '{name}'",
                    statement=number,
                    fix="add the value, or correct its name",
                )


def _verify_owners(program: Program) -> None:
    arrivals = [("input", name, (BufferKind.INPUT, BufferKind.NUMBER, BufferKind.CONSTANT)) for name in program.inputs]
    arrivals += [("tangent", name, (BufferKind.TANGENT,)) for name in program.tangents]
    for what, name, kinds in arrivals:
        if what == "input" and name in program.scope.ranges:
            continue
        if name not in program.values:
            raise VerificationError(
                Defect.UNKNOWN_VALUE,
                program,
                subject=f"{what} '{name}'",
                found=f"{what} '{name}' is neither a value nor a dimension variable",
                fix=f"list values among the {what}s by their names",
            )
        buffer = program.buffers[program.values[name].buffer]
        if buffer.kind not in kinds:
            raise VerificationError(
                Defect.WRONG_OWNER,
                program,
                subject=f"{what} '{name}'",
                found=f"{what} '{name}' lives in buffer '{buffer.name}' of kind {buffer.kind.value}",
                fix=f"put it into a buffer of kind {kinds[0].value}",
            )


def _verify_dims_known_to_scope(program: Program) -> None:
    known = program.scope.ranges
    cleared: set[Expr] = set()
    for subject, statement, exprs in _expressions(program):
        for expr in exprs:
            if expr in cleared:
                continue
            unknown = sorted(dim for dim in expr.dims if dim not in known)
            if unknown:
                raise _unknown_dim(program, unknown[0], f"{render(expr)} of {subject}", statement)
            cleared.add(expr)
    for number, statement in enumerate(program.statements):
        for dim in statement.defines_dims + statement.reads_dims:
            if dim not in known:
                raise _unknown_dim(program, dim, f"statement '{statement.name}'", number)
    for dim in program.dim_names:
        if dim not in known:
            raise _unknown_dim(program, dim, "dim_names", None)


def _unknown_dim(program: Program, dim: str, user: str, statement: int | None) -> VerificationError:
    return VerificationError(
        Defect.UNKNOWN_DIM,
        program,
        subject=f"dimension variable '{dim}'",
        found=f"'{dim}' in {user}; the scope knows {', '.join(sorted(program.scope.ranges)) or 'no variable'}",
        statement=statement,
        fix=f"add '{dim}' with its range to the scope",
    )


def _expressions(program: Program) -> Iterator[tuple[str, int | None, Iterable[Expr]]]:
    """Yield every expression of a program with what it belongs to."""
    for buffer in program.buffers.values():
        yield f"buffer '{buffer.name}'", None, (buffer.size,)
    for value in program.values.values():
        yield f"value '{value.name}'", program.definer(value.name), (*value.shape, *value.stride, value.offset)
    for number, statement in enumerate(program.statements):
        exprs = [workspace.size for workspace in statement.workspace if workspace.size is not None]
        if statement.cost is not None:
            exprs += [statement.cost.flops, statement.cost.bytes_moved]
        yield f"statement '{statement.name}'", number, exprs
    for output in program.forward_outputs + program.backward_outputs:
        if output.dim is not None:
            yield f"output '{output.code}'", None, (output.dim,)


def _verify_sizes(program: Program) -> None:
    sizes: list[tuple[str, int | None, Expr]] = [
        (f"buffer '{buffer.name}'", None, buffer.size) for buffer in program.buffers.values()
    ]
    sizes += [
        (f"workspace '{workspace.name}'", number, workspace.size)
        for number, statement in enumerate(program.statements)
        for workspace in statement.workspace
        if workspace.size is not None
    ]
    cleared: set[Expr] = set()
    for subject, statement, size in sizes:
        if size in cleared:
            continue
        low, high = bounds(size, program.scope)
        # Bounds are proved but not tight: only a size that is never non-negative is certainly wrong.
        if (high is not None and high < 0) or (low is not None and low < 0 and size.is_constant):
            raise VerificationError(
                Defect.NEGATIVE_SIZE,
                program,
                subject=subject,
                found=f"{subject} has {render(size)} bytes, at most {high}",
                statement=statement,
                fix="correct the size, in bytes",
            )
        cleared.add(size)


def _verify_binding(program: Program, binding: DimBinding) -> None:
    if binding.dim not in program.scope.ranges:
        raise _unknown_dim(program, binding.dim, "entry_dims", None)
    if binding.code:
        return
    reason = ""
    if binding.source not in program.inputs:
        reason = f"'{binding.source}' is no input"
    elif binding.axis is None:
        if binding.source in program.values:
            reason = f"input '{binding.source}' is a tensor, not an integer"
    elif binding.source not in program.values:
        reason = f"input '{binding.source}' is an integer and has no axes"
    elif not 0 <= binding.axis < len(program.values[binding.source].shape):
        reason = (
            f"input '{binding.source}' has {len(program.values[binding.source].shape)} axes, not {binding.axis + 1}"
        )
    if reason:
        raise VerificationError(
            Defect.BAD_BINDING,
            program,
            subject=f"dimension variable '{binding.dim}'",
            found=f"'{binding.dim}' is bound to '{binding.source}', axis {binding.axis}: {reason}",
            fix="bind it to an integer input, to an axis of a tensor input, or to code",
        )
