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

from functools import cached_property
from typing import Any

import sympy
from torch._inductor import config
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.utils import get_dtype_size
from torch._inductor.virtualized import V

from lowtide.lower.inductor.fusion_limits import FusionLimits, is_negligible, largest_sizes


class SeparateLoops(CppScheduling):
    """The C++ backend, but a call ends once its loops have allocated and freed a sizeable amount of bytes.

    Nor are loops fused that have nothing large in common; see `FusionLimits`.
    """

    @cached_property
    def limits(self) -> FusionLimits:
        """What may be fused in this graph."""
        return FusionLimits(self.scheduler)

    def can_fuse_vertical(self, node1: Any, node2: Any) -> bool:
        """Tell whether a node may be fused with one that reads its result."""
        return super().can_fuse_vertical(node1, node2) and not self.limits.refuses(node1, node2)

    def can_fuse_horizontal(self, node1: Any, node2: Any) -> bool:
        """Tell whether a node may be fused with one that does not depend on it."""
        return super().can_fuse_horizontal(node1, node2) and not self.limits.refuses(node1, node2)

    def codegen_node(self, node: Any) -> None:
        """Write the loops of a node, and end the call after it unless all that the call touched is negligible."""
        super().codegen_node(node)
        self._touched += _touched_bytes(node)
        if not self._is_negligible():
            self._set_flush_status(True)

    def flush(self) -> None:
        """End the call."""
        super().flush()
        self._touched = sympy.Integer(0)

    def reset_kernel_group(self) -> None:
        """Begin a call."""
        super().reset_kernel_group()
        self._touched: sympy.Expr = sympy.Integer(0)

    def _is_negligible(self) -> bool:
        return self._touched == 0 or is_negligible(self._touched, self._largest)

    @cached_property
    def _largest(self) -> list[sympy.Expr]:
        """The sizes of the graph's buffers that are largest at canonical hints.

        Only buffers that somebody outside of the fused node uses: others are never allocated.
        """
        assert self.scheduler is not None, "bug: loops are written without a scheduler"
        sizes: set[sympy.Expr] = set()
        for node in self.scheduler.nodes:
            inside = {leaf.get_name() for leaf in node.get_nodes()}
            for buffer in node.get_outputs():
                if any(user.get_name() not in inside for user in buffer.users):
                    sizes.add(_buffer_bytes(buffer.node))
        return largest_sizes(sizes)


def make_scheduling(scheduler: Any) -> Any:
    """Make the backend for CPU graphs: ours in the place of the C++ one, any other as it is."""
    assert config.cpu_backend == "cpp", "bug: another CPU backend is refused before"
    return SeparateLoops(scheduler)


def loops_kept_apart(scheduler: Any) -> tuple[tuple[str, str], ...]:
    """Name the pairs of loops of a graph that could have been one kernel and were not, to spare memory."""
    ours = [backend for backend in scheduler.backends.values() if isinstance(backend, SeparateLoops)]
    return tuple(sorted(pair for backend in ours for pair in backend.limits.refused))


def _touched_bytes(node: Any) -> sympy.Expr:
    """Bytes that a node allocates, and bytes of what it is the last to use."""
    total: sympy.Expr = sympy.Integer(0)
    for buffer in node.get_outputs():
        total += _buffer_bytes(buffer.node)
    for name in node.last_usage:
        buffer = node.scheduler.name_to_buf.get(name)
        if buffer is not None and name not in node.get_buffer_names():
            total += _buffer_bytes(buffer.node)
    return total


def _buffer_bytes(node: Any) -> sympy.Expr:
    if not node.has_tensor_output() or node.get_name() in V.graph.removed_buffers:
        return sympy.Integer(0)
    return sympy.sympify(V.graph.get_allocation_storage_size(node)) * get_dtype_size(node.get_dtype())
