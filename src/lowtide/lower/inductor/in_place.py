"""Which outputs of a generated kernel may take over the storage of one of its inputs.

One kernel call may hold several loop nests, and each may read and write many buffers. Taking over is
permitted only if every loop of the call that touches the input reads exactly the element that the output's
only write goes to, and no loop after the writing one reads the input. Equal sizes are not enough: a later
loop that reads the old content would see the new one.

Permissions are conservative: the loops considered are all loops of all scheduler nodes that write anything
in the call. Library calls and templates never get a permission (their kernels declare non-overlapping
pointers).
"""

from collections.abc import Iterator, Sequence
from typing import Any

from torch._inductor.dependencies import MemoryDep


class InPlaceFinder:
    """Answers for one graph; builds the set of aliased buffers once."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._scheduler = graph.scheduler
        self._aliased: set[str] = set()
        for name, buffer in self._scheduler.name_to_buf.items():
            shared = [*buffer.get_aliases(), *buffer.get_mutations()]
            if shared:
                self._aliased.update(shared)
                self._aliased.add(name)

    def find(self, reads: Sequence[str], writes: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield (written buffer, read buffer) pairs that may share storage in one generated kernel call.

        Args:
            reads: Buffers the call reads.
            writes: Buffers the call writes.

        Guarantee: sound; pairs that would also be safe may be missing.
        Cost: O(outputs * inputs * accesses) of the call.
        """
        accesses = self._accesses(writes)
        if accesses is None:
            return
        by_reader: dict[str, list[tuple[int, Any]]] = {}
        for position, (deps, _) in enumerate(accesses):
            for dep in deps:
                by_reader.setdefault(self._scheduler.mutation_real_name.get(dep.name, dep.name), []).append(
                    (position, dep)
                )
        for written in writes:
            place = None if written in self._aliased or written in reads else _only_write(accesses, written)
            if place is None:
                continue
            position, write = place
            for read in reads:
                if read in self._aliased or read in writes or not self._same_dtype(read, written):
                    continue
                touching = by_reader.get(read, [])
                if touching and all(i <= position and _same_element(dep, write) for i, dep in touching):
                    yield written, read

    def _same_dtype(self, a: str, b: str) -> bool:
        return bool(self._graph.get_dtype(a) == self._graph.get_dtype(b))

    def _accesses(self, writes: Sequence[str]) -> list[tuple[list[Any], list[Any]]] | None:
        leaves: list[Any] = []
        seen: set[int] = set()
        for name in writes:
            buffer = self._scheduler.name_to_buf.get(name)
            node = self._scheduler.name_to_fused_node.get(buffer.defining_op_name()) if buffer is not None else None
            if node is not None and id(node) not in seen:
                seen.add(id(node))
                leaves.extend(node.get_nodes())
        if not leaves or any(leaf.is_template() for leaf in leaves):
            return None
        return [(list(leaf.read_writes.reads), list(leaf.read_writes.writes)) for leaf in leaves]


def _only_write(accesses: list[tuple[list[Any], list[Any]]], name: str) -> tuple[int, MemoryDep] | None:
    found = [(i, dep) for i, (_, writes) in enumerate(accesses) for dep in writes if dep.name == name]
    if len(found) != 1:
        return None
    position, dep = found[0]
    return (position, dep) if isinstance(dep, MemoryDep) and dep.mode is None else None


def _same_element(read: Any, write: MemoryDep) -> bool:
    """Same index of the same loop variables over the same ranges: then loops agree element by element."""
    return (
        isinstance(read, MemoryDep)
        and read.mode is None
        and read.index == write.index
        and read.var_names == write.var_names
        and read.size == write.size
        and not read.is_indirect()
    )
