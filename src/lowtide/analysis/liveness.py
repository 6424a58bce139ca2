"""When each buffer must exist: `live_ranges`.

    step        0        1        2        3         4        5
    statement   a=f(x)   b=g(a)   c=h(a)   d=k(b,c)  |bwd     ...
    a           [-----------------)                            dead after its last use, in step 2
    b                    [------------------)
    d (output)                             [------------------------)   held to the end
    t (tangent)                                      [--------)         from the start of backward

Ranges are half-open, `[start, stop)`, in steps of an order. See docs/memory_model.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from lowtide.analysis.order import resolve_order
from lowtide.ir import BufferKind, Output, Phase, Program


@dataclass(frozen=True, slots=True)
class LiveRange:
    """Half-open range of steps in which a buffer must exist.

    Invariant: `start <= stop`. An empty range means that the buffer is never counted.
    """

    start: int
    stop: int

    def __contains__(self, step: int) -> bool:
        """Tell whether the buffer is live during `step`."""
        return self.start <= step < self.stop


def live_ranges(
    program: Program,
    order: Sequence[int] | None = None,
    *,
    outputs_held: bool | Collection[str] = True,
    tangents_held: Collection[str] = (),
    counted_elsewhere: Collection[str] = (),
) -> Mapping[str, LiveRange]:
    """Find the live range of every counted buffer.

    Args:
        program: Verified program.
        order: For each step the index of its statement; program order by default. It must respect the
            dependences.
        outputs_held: Whether the caller keeps forward outputs until the end of the program. Otherwise
            their buffers live until their last use or the end of forward, whichever is later. A collection
            names the buffers that the caller keeps.
        tangents_held: TANGENT buffers that the caller keeps until the end of the program.
        counted_elsewhere: Buffers to leave out, because another program already counts them.

    Returns:
        Buffer -> range, for the INTERMEDIATE buffers that a statement defines and for the TANGENT and NUMBER
        buffers. Exact.

    Raises:
        OrderError: If `order` is not a permutation.

    Cost: O(accesses).
    """
    steps = resolve_order(program, order)
    statements, values = program.statements, program.values
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    forward_end = 0
    backward_start = len(steps)
    for step, number in enumerate(steps):
        statement = statements[number]
        if statement.phase is Phase.FORWARD:
            forward_end = step + 1
        else:
            backward_start = min(backward_start, step)
        for name in statement.defines:
            buffer = values[name].buffer
            first.setdefault(buffer, step)
            last[buffer] = step
        for name in statement.reads:
            last[values[name].buffer] = step
        for name in statement.writes:
            last[values[name].buffer] = step
    held = _buffers_under(program, program.backward_outputs)
    forward_held = _buffers_under(program, program.forward_outputs)
    if outputs_held is True:
        held |= forward_held
    elif outputs_held is not False:
        held |= forward_held & set(outputs_held)
    held |= set(tangents_held)
    ranges: dict[str, LiveRange] = {}
    for name, buffer in program.buffers.items():
        if name in counted_elsewhere:
            continue
        if buffer.kind is BufferKind.TANGENT:
            start = backward_start
        elif buffer.kind is BufferKind.NUMBER:
            start = 0
        elif buffer.kind is BufferKind.INTERMEDIATE and name in first:
            start = first[name]
        else:
            continue
        stop = max(start, last.get(name, -1) + 1)
        if name in held:
            stop = len(steps)
        elif buffer.kind is BufferKind.NUMBER or name in forward_held:
            stop = max(stop, forward_end)
        ranges[name] = LiveRange(start, stop)
    return ranges


def _buffers_under(program: Program, outputs: Sequence[Output]) -> set[str]:
    return {program.values[output.value].buffer for output in outputs if output.value is not None}
