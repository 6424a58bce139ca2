"""Wrapper lines that only a GPU program has, and how each is understood.

- Kernel calls: Triton's argument types are dtypes, so who is read and who is written is told by the names of the
  kernel's parameters (`in_ptr0`, `out_ptr1`, `in_out_ptr0`, `ws_ptr`, `sem_ptr`).
- Device guards and streams: one for the whole graph. They are left out here; the runtime writes them once into
  each function it emits.
- Copies between devices: `buf3.copy_(arg0, False)`.
- Alignment: `arg0 = copy_if_misaligned(arg0)` gives the same tensor, or a copy whose address fits the kernels.
  It becomes a view of the input under a name of its own, which later statements use.

Several GPUs in one graph, and streams chosen by the user, are not handled.
"""

import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from lowtide.lower.joint import (
    GraphRecord,
    StatementRecord,
    TensorRecord,
    UnsupportedGraphError,
    identifiers,
    rename_identifiers,
)

PINNED = "cpu_pinned"
"""Device of host memory that the GPU can copy from directly; its allocator is `empty_strided_cpu_pinned`."""

_STREAM = re.compile(r"(?:raw_)?stream\d+ = get_raw_stream\(\d+\)")
_COPY = re.compile(r"(?P<target>.+?)\.copy_\((?P<source>.+), (?:True|False)\)")
_ALIGN = re.compile(r"(?P<name>\w+) = copy_if_misaligned\((?P=name)\)")
_READ_ONLY = ("in_ptr", "arg_")
_WRITE_ONLY = ("out_ptr", "ws_ptr")


def without_streams(text: Sequence[str]) -> tuple[str, ...]:
    """Leave out the lines that fetch a stream: each emitted function fetches it once."""
    return tuple(line for line in text if _STREAM.fullmatch(line) is None)


def triton_roles(line: Any, tensors: Collection[str]) -> tuple[list[str], list[str]]:
    """Tell which buffers a Triton kernel call reads and which it writes.

    Args:
        line: The `KernelCallLine`.
        tensors: Names of all tensors of the wrapper, to tell them from sizes.

    Returns:
        Names read and names written. A parameter that is both, or whose name says nothing (a kernel written by
        the user), is in both.

    Raises:
        UnsupportedGraphError: If the call does not give the kernel as many arguments as it has parameters.

    Guarantee: conservative. Cost: linear in arguments.
    """
    parameters = [name for name, kind in line.triton_meta["signature"].items() if kind != "constexpr"]
    if len(parameters) < len(line.call_args):
        # Sizes that are compile-time constants are passed all the same; they follow the tensors.
        parameters = list(line.triton_meta["signature"])
    if len(parameters) < len(line.call_args):
        raise UnsupportedGraphError(
            "A Triton kernel is called with more arguments than it has parameters.",
            found=f"{len(line.call_args)} arguments for {', '.join(parameters)}",
            where=f"kernel {line.kernel_name}",
            fix="report this with the model; backend='inductor' runs it meanwhile.",
        )
    mutated = set((line.inductor_meta or {}).get("mutated_arg_names") or ())
    reads: list[str] = []
    writes: list[str] = []
    for arg, parameter in zip(line.call_args, parameters, strict=False):
        for name in _tensors_in(arg, tensors):
            if not parameter.startswith(_WRITE_ONLY):
                reads.append(name)
            if not parameter.startswith(_READ_ONLY) or parameter in mutated:
                writes.append(name)
    return reads, writes


def _tensors_in(arg: object, tensors: Collection[str]) -> list[str]:
    return [name for name in identifiers(arg) if name in tensors] if isinstance(arg, str) else []


def device_copy(text: Sequence[str], tensors: Collection[str]) -> StatementRecord | None:
    """Read a copy between devices; None if the line is none."""
    match = _COPY.fullmatch(text[0]) if len(text) == 1 else None
    if match is None:
        return None
    written = tuple(name for name in identifiers(match["target"]) if name in tensors)
    read = tuple(name for name in identifiers(match["source"]) if name in tensors)
    return StatementRecord("copy_", tuple(text), reads=read, writes=written)


def aligned_input(text: Sequence[str]) -> str | None:
    """The input that a line may replace by an aligned copy; None if the line does something else."""
    match = _ALIGN.fullmatch(text[0]) if len(text) == 1 else None
    return None if match is None else match["name"]


def use_aligned(statement: StatementRecord, aligned: Mapping[str, str]) -> None:
    """Let a statement use aligned inputs under their new names: changes the record in place."""
    if not aligned.keys() & set(statement.reads):
        return
    statement.code = tuple(rename_identifiers(line, aligned) for line in statement.code)
    statement.reads = tuple(aligned.get(name, name) for name in statement.reads)
    statement.views = {name: aligned.get(base, base) for name, base in statement.views.items()}
    statement.may_reuse = tuple((written, aligned.get(read, read)) for written, read in statement.may_reuse)


def align_inputs(record: GraphRecord, positions: Iterable[int]) -> None:
    """Align inputs at the start of a graph whose wrapper does not: changes the record in place.

    Inputs that the graph changes keep their place, as a copy would hide the change.

    Args:
        record: The graph.
        positions: Inputs whose addresses the kernels make assumptions about.
    """
    used = {name for statement in record.statements for name in statement.reads}
    changed = {name for statement in record.statements for name in statement.writes}
    aligned: dict[str, str] = {}
    first: list[StatementRecord] = []
    for position in positions:
        tensor = record.inputs[position].tensor
        if tensor is None or tensor.name not in used or tensor.name in changed:
            continue
        name = aligned[tensor.name] = f"{tensor.name}_aligned"
        first.append(align_statement(tensor.name, dataclasses.replace(tensor, name=name)))
    for statement in record.statements:
        use_aligned(statement, aligned)
    record.statements[:0] = first


def align_statement(name: str, aligned: TensorRecord) -> StatementRecord:
    """The statement that gives an input a second name, under which its address fits the kernels."""
    return StatementRecord(
        "align",
        (f"{aligned.name} = copy_if_misaligned({name})",),
        reads=(name,),
        defines=(aligned,),
        views={aligned.name: name},
    )


def check_single_device(seen: Collection[int], where: str) -> None:
    """Refuse a graph that runs on several GPUs.

    Raises:
        UnsupportedGraphError: If `seen` has more than one device index.
    """
    if len(seen) > 1:
        raise UnsupportedGraphError(
            "A graph uses several GPUs.",
            found=f"devices {', '.join(map(str, sorted(seen)))}",
            where=where,
            fix="compile the part of each GPU on its own, or use backend='inductor' for this model.",
        )
