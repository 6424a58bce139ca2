r"""Chooses which values take over the storage of an operand that dies in the same statement.

           step k           step k+1
    a  ----------.
                  \ kernel permits it, a dies here, b has the size of a
    b              '------------------

While the statement runs only one of the two buffers exists, so its footprint drops by that size. A choice never
raises a footprint: the storage that b takes over would have been freed at this very step, and a smaller b would keep
all of it for as long as b lives (a bias gradient would pin a whole activation).
"""

from collections.abc import Collection, Mapping

from lowtide.ir import BufferKind, Phase, Program
from lowtide.symbolic import CompareTally, Verdict, compare


def choose_in_place(
    program: Program,
    *,
    across_boundary: bool = True,
    tangents: Collection[str] = (),
    tally: CompareTally | None = None,
) -> Mapping[str, str]:
    """Choose in-place reuse for a program in its present order.

    Args:
        program: Verified program.
        across_boundary: Whether backward may write over storage that forward saved. Must be False when
            backward is to run more than once on the same state.
        tangents: TANGENT buffers that backward may write over, because nobody else will hold them.
        tally: Counts the size comparisons made.

    Returns:
        Buffer -> buffer whose storage it takes over; chains are possible.

    Guarantee: every choice is permitted by the kernel, proved to be of equal size for all sizes in the scope, and
        lowers or keeps each footprint. Among several candidates the first is taken.
    Cost: O(statements + permissions) with one comparison per candidate that dies.
    """
    held = _held_buffers(program)
    last = _last_steps(program)
    root: dict[str, str] = {}
    born_forward = {
        program.values[name].buffer
        for statement in program.statements
        if statement.phase is Phase.FORWARD
        for name in statement.defines
    }
    values, born = program.values, set[str]()
    for step, statement in enumerate(program.statements):
        permitted = frozenset(statement.may_reuse)
        taken: set[str] = set()
        inside: dict[str, list[str]] = {}  # what is read of each storage
        for name in statement.reads if permitted else ():
            buffer = values[name].buffer
            inside.setdefault(root.get(buffer, buffer), []).append(name)
        for buffer in dict.fromkeys(values[name].buffer for name in statement.defines):
            if buffer in born:  # another value in storage that is there already
                continue
            born.add(buffer)
            if not statement.allocates:  # the storage comes with the call
                continue
            new = [name for name in statement.defines if values[name].buffer == buffer]
            for _, read in statement.may_reuse:
                donor = values[read].buffer
                storage = root.get(donor, donor)
                if storage in taken or donor in held or storage in held:
                    continue
                is_ours = program.buffers[storage].kind is BufferKind.INTERMEDIATE or storage in tangents
                if not is_ours or last[donor] != step:
                    continue
                if statement.phase is Phase.BACKWARD and not across_boundary and storage in born_forward:
                    continue
                if any(n in statement.writes or (name, n) not in permitted for n in inside[storage] for name in new):
                    continue
                if (
                    compare(
                        program.buffers[buffer].size, program.buffers[storage].size, program.scope, tally=tally
                    ).verdict
                    is Verdict.EQUAL
                ):
                    root[buffer] = storage
                    taken.add(storage)
                    break
    return root


def _held_buffers(program: Program) -> frozenset[str]:
    outputs = (*program.forward_outputs, *program.backward_outputs)
    return frozenset(program.values[out.value].buffer for out in outputs if out.value is not None)


def _last_steps(program: Program) -> dict[str, int]:
    last: dict[str, int] = {}
    for step, statement in enumerate(program.statements):
        for name in (*statement.reads, *statement.writes, *statement.defines):
            last[program.values[name].buffer] = step
    return last
