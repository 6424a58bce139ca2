"""Which outputs of a generated kernel may take over the storage of one of its inputs.

One kernel call may hold the loops of several scheduler nodes, run one node after the other, and each may read
and write many buffers. Taking over is permitted only if

- no node after the writing one reads the input;
- within the writing node, every loop that reads the input reads exactly the element that the writing loop writes (the
  same index of the same variables over the same ranges), and comes no later, or has one body with it: a body
  loads all its elements before it stores any.

Loops of earlier nodes have ended when the writing node begins, so what they read does not matter. Equal sizes
are not enough: a later loop that reads the old content would see the new one.

Permissions are conservative: the loops considered are all loops of all scheduler nodes that write anything
in the call. Library calls and templates never get a permission (their kernels declare non-overlapping
pointers), nor do nodes whose parts run at the same time.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch._inductor.dependencies import MemoryDep
from torch._inductor.scheduler import FusedSchedulerNode


@dataclass(frozen=True, slots=True)
class _Loop:
    """The accesses of one loop, the place of its scheduler node in the order of execution, and the body it is part of.

    Elementwise loops over the same ranges in one fused node are written as one body; any other loop is its own.
    """

    node: int
    body: Hashable
    reads: tuple[Any, ...]
    writes: tuple[Any, ...]


class InPlaceFinder:
    """Answers for one graph; orders its nodes and collects its views once."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._scheduler = graph.scheduler
        self._place = {id(node): place for place, node in enumerate(graph.scheduler.nodes)}
        self._viewed: set[str] = set()
        for name, buffer in self._scheduler.name_to_buf.items():
            if shared := buffer.get_aliases():
                self._viewed.update(shared)
                self._viewed.add(name)

    def find(self, reads: Sequence[str], writes: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield (written buffer, read buffer) pairs that may share storage in one generated kernel call.

        Args:
            reads: Buffers the call reads.
            writes: Buffers the call writes.

        Guarantee: sound; pairs that would also be safe may be missing.
        Cost: O(outputs * inputs * accesses) of the call.
        """
        loops = self._loops(writes)
        readers: dict[str, list[tuple[int, Any]]] = {}
        real = self._scheduler.mutation_real_name
        for position, loop in enumerate(loops):
            for dep in loop.reads:
                readers.setdefault(real.get(dep.name, dep.name), []).append((position, dep))
        for written in writes:
            place = None if written in self._viewed or written in reads else _only_write(loops, written)
            if place is None:
                continue
            position, write = place
            for read in reads:
                if read in self._viewed or read in writes or not self._same_dtype(read, written):
                    continue
                touching = readers.get(read, [])
                if touching and all(_is_done(loops, i, dep, position, write) for i, dep in touching):
                    yield written, read

    def _same_dtype(self, a: str, b: str) -> bool:
        return bool(self._graph.get_dtype(a) == self._graph.get_dtype(b))

    def _loops(self, writes: Sequence[str]) -> list[_Loop]:
        """All loops behind the call in the order in which they run; none where that is not known."""
        nodes: dict[int, Any] = {}
        for name in writes:
            buffer = self._scheduler.name_to_buf.get(name)
            node = self._scheduler.name_to_fused_node.get(buffer.defining_op_name()) if buffer is not None else None
            if node is not None:
                nodes[id(node)] = node
        if any(key not in self._place or node.is_foreach() for key, node in nodes.items()):
            return []
        ordered = sorted(nodes.values(), key=lambda node: self._place[id(node)])
        if any(leaf.is_template() for node in ordered for leaf in node.get_nodes()):
            return []
        return [
            _Loop(self._place[id(node)], body, tuple(leaf.read_writes.reads), tuple(leaf.read_writes.writes))
            for node in ordered
            for leaf, body in zip(node.get_nodes(), _bodies(node), strict=True)
        ]


def _bodies(node: Any) -> Iterator[Hashable]:
    """Say for each loop of a node which body it is part of."""
    fused = type(node) is FusedSchedulerNode and not node.is_reduction()
    for place, leaf in enumerate(node.get_nodes()):
        yield leaf.group if fused else place


def _is_done(loops: list[_Loop], reading: int, read: Any, writing: int, write: MemoryDep) -> bool:
    """Whether nothing of what `read` reads is still wanted when `write` has written."""
    reader, writer = loops[reading], loops[writing]
    if reader.node != writer.node:
        return reader.node < writer.node
    return (reading <= writing or reader.body == writer.body) and _same_element(read, write)


def _only_write(loops: list[_Loop], name: str) -> tuple[int, MemoryDep] | None:
    found = [(i, dep) for i, loop in enumerate(loops) for dep in loop.writes if dep.name == name]
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
