"""Keeps unrelated loops in kernel calls of their own, where one call for several would raise the peak.

Inductor's C++ backend writes consecutive loops that have nothing to do with each other into one call. While that call
runs, all that any of its loops allocates exists and nothing that an early loop read last is freed; and no order of
statements can undo it: a gradient that is filled with zeros in such a call exists from that call on.

    one call      [ zero 65 MB gradient | softmax backward | copies ]     all of it at once
    three calls   [ softmax backward ] [ copies ] ... [ zero gradient ]   each when it is needed

A loop whose buffers are negligible beside the largest buffer of the graph, proved for every size, stays in the call.
"""

# Inductor's internals are untyped or typed for its own use; what they are is held by tests on every torch version.
# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

from typing import Any

import sympy
from torch._inductor import config
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.utils import get_dtype_size
from torch._inductor.virtualized import V

NEGLIGIBLE_SHARE = 100
"""Buffers of less than 1/100 of the largest one may share a call."""


class SeparateLoops(CppScheduling):
    """The C++ backend, but each loop that allocates or frees a sizeable buffer is a call of its own."""

    def codegen_node(self, node: Any) -> None:
        """Write the loops of a node, and end the call after it unless its buffers are negligible."""
        super().codegen_node(node)
        if not self._is_negligible(node):
            self._set_flush_status(True)

    def _is_negligible(self, node: Any) -> bool:
        touched = _touched_bytes(node)
        if touched == 0:
            return True
        return any(
            V.graph.sizevars.statically_known_leq(touched * NEGLIGIBLE_SHARE, largest) for largest in self._largest()
        )

    def _largest(self) -> list[sympy.Expr]:
        """The sizes of the graph's buffers that are largest at canonical hints, most of them first."""
        if not hasattr(self, "_largest_sizes"):
            assert self.scheduler is not None, "bug: loops are written without a scheduler"
            sizes = {_buffer_bytes(buffer.node) for buffer in self.scheduler.name_to_buf.values()}
            hint = V.graph.sizevars.optimization_hint
            ranked = sorted(sizes, key=lambda size: (-hint(size, fallback=0), str(size)))
            self._largest_sizes = ranked[:3]
        return self._largest_sizes


def make_scheduling(scheduler: Any) -> Any:
    """Make the backend for CPU graphs: ours in the place of the C++ one, any other as it is."""
    assert config.cpu_backend == "cpp", "bug: another CPU backend is refused before"
    return SeparateLoops(scheduler)


def _touched_bytes(node: Any) -> sympy.Expr:
    """Bytes that a node allocates, and bytes of what it alone reads."""
    inside = {leaf.get_name() for leaf in node.get_nodes()}
    total: sympy.Expr = sympy.Integer(0)
    for buffer in node.get_outputs():
        total += _buffer_bytes(buffer.node)
    for dependence in node.read_writes.reads:
        buffer = node.scheduler.name_to_buf.get(dependence.name)
        if buffer is not None and all(user.get_name() in inside for user in buffer.users):
            total += _buffer_bytes(buffer.node)
    return total


def _buffer_bytes(node: Any) -> sympy.Expr:
    if not node.has_tensor_output() or node.get_name() in V.graph.removed_buffers:
        return sympy.Integer(0)
    return sympy.sympify(V.graph.get_allocation_storage_size(node)) * get_dtype_size(node.get_dtype())
