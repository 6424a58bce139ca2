"""Edits that give a new program: another order, or one buffer in the place of another.

An edit changes the text of a program and nothing else; whether the result still computes the same is for
`verify_program` and `check_plan` to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lowtide.errors import LowtideError
from lowtide.ir.program import Program


class EditError(LowtideError):
    """An edit that makes no sense for the program it was asked of."""


def reorder(program: Program, order: Sequence[int]) -> Program:
    """Put the statements into another order.

    Args:
        program: Any program.
        order: For each step, the index of the statement that runs there.

    Returns:
        The same program with `statements[step] = program.statements[order[step]]`.

    Raises:
        EditError: If `order` is not a permutation of the statement indices.

    Cost: O(statements).
    """
    if sorted(order) != list(range(len(program.statements))):
        raise EditError(
            f"cannot reorder program '{program.name}': the order is not a permutation of its statements",
            found=f"{len(order)} entries, {len(set(order))} of them distinct",
            where=f"program '{program.name}' with {len(program.statements)} statements",
            fix="name every statement index from 0 exactly once",
        )
    return replace(program, statements=tuple(program.statements[number] for number in order))


def replace_buffers(program: Program, replacements: Mapping[str, str]) -> Program:
    """Let all values of some buffers live in others, and drop the buffers that were replaced.

    Args:
        program: Any program.
        replacements: Buffer -> the buffer whose storage stands in for it. Chains are followed: with
            `{"c": "b", "b": "a"}` the values of `c` and of `b` end up in `a`.

    Returns:
        The program with those values moved; offsets and strides stay as they are.

    Raises:
        EditError: If a name is no buffer of the program, or a chain comes back to where it started.

    Cost: O(values + buffers).
    """
    roots = {buffer: _root(program, buffer, replacements) for buffer in replacements}
    values = {
        name: replace(value, buffer=roots[value.buffer]) if value.buffer in roots else value
        for name, value in program.values.items()
    }
    buffers = {name: buffer for name, buffer in program.buffers.items() if name not in roots}
    return replace(program, values=values, buffers=buffers)


def _root(program: Program, buffer: str, replacements: Mapping[str, str]) -> str:
    passed = [buffer]
    while passed[-1] in replacements:
        following = replacements[passed[-1]]
        if following in passed:
            raise EditError(
                f"cannot replace buffers of program '{program.name}': a chain of replacements is a circle",
                found=" -> ".join([*passed, following]),
                where=f"replacement of buffer '{buffer}'",
                fix="let the last buffer of the chain keep its own storage",
            )
        passed.append(following)
    for name in passed:
        if name not in program.buffers:
            raise EditError(
                f"cannot replace buffers of program '{program.name}': no such buffer",
                found=f"buffer '{name}'",
                where=f"replacement of buffer '{buffer}'",
                fix="use names from program.buffers",
            )
    return passed[-1]
