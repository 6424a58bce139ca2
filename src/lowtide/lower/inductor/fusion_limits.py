"""Refuses fusions of loops that have nothing large in common, since one kernel needs all of its buffers at once.

    sum(a) + sum(b) of two large buffers      one kernel     a and b are alive together
                                              two kernels    a may die before b is made

Loops that share a large buffer are worth fusing: it is read once. Where all that they share is negligible beside what
each touches on its own, fusing saves a call and ties two lifetimes together, which no order of statements can undo.
torch's own guard compares sizes as integers and is off for symbolic ones; here sizes are compared for every shape.
"""

# Inductor's internals are untyped or typed for its own use; what they are is held by tests on every torch version.
# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

from collections.abc import Iterable
from typing import Any

import sympy
from torch._inductor import ir
from torch._inductor.utils import get_dtype_size
from torch._inductor.virtualized import V

NEGLIGIBLE_SHARE = 100
"""What is proved to be at most 1/100 of another size is negligible beside it."""


class FusionLimits:
    """Decides for the scheduler of one graph.

    Attributes:
        refused: The pairs of loops that were kept apart, by the names of their operations.
    """

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._sizes: dict[str, sympy.Expr] = {}
        self._negligible: dict[str, bool] = {}
        self._ends: list[sympy.Expr] | None = None
        self.refused: set[tuple[str, str]] = set()

    def refuses(self, first: Any, second: Any) -> bool:
        """Tell whether two nodes, which Inductor could fuse, must stay apart.

        Guarantee: heuristic; results do not depend on it, and neither does it depend on the shape seen first.
        Cost: O(accesses) of the nodes, and one comparison per large buffer.
        """
        ours, theirs = self._touched(first), self._touched(second)
        shared = ours & theirs
        alone = [self._large(ours - shared), self._large(theirs - shared)]
        if any(self._is_covered(names, shared) for names in alone):
            return False
        self.refused.add((first.get_first_name(), second.get_first_name()))
        return True

    def _touched(self, node: Any) -> set[str]:
        """Buffers that are read or written, without those that exist only inside the node."""
        inside = node.get_operation_names()
        written = {
            buffer.get_name()
            for buffer in node.get_outputs()
            if _is_tensor(buffer.get_name()) and any(user.get_name() not in inside for user in buffer.users)
        }
        real = self._scheduler.mutation_real_name
        read = {real.get(dep.name, dep.name) for dep in node.read_writes.reads} - node.get_buffer_names()
        return written | {name for name in read if _is_tensor(name)}

    def _large(self, names: Iterable[str]) -> list[str]:
        return sorted(name for name in names if not self._is_negligible(name))

    def _is_covered(self, names: list[str], shared: set[str]) -> bool:
        """Whether every one of the buffers is at most `NEGLIGIBLE_SHARE` times one that both nodes touch."""
        return all(any(_at_most(self._size(n), NEGLIGIBLE_SHARE * self._size(s)) for s in shared) for n in names)

    def _is_negligible(self, name: str) -> bool:
        """Whether a buffer is negligible beside one that the graph takes or returns."""
        if name not in self._negligible:
            if self._ends is None:
                ends = {*V.graph.graph_inputs, *V.graph.get_output_names()}
                self._ends = largest_sizes({self._size(end) for end in ends if _is_tensor(end)})
            self._negligible[name] = is_negligible(self._size(name), self._ends)
        return self._negligible[name]

    def _size(self, name: str) -> sympy.Expr:
        """Bytes of a buffer."""
        if name not in self._sizes:
            self._sizes[name] = sympy.sympify(V.graph.get_numel(name)) * get_dtype_size(V.graph.get_dtype(name))
        return self._sizes[name]


def largest_sizes(sizes: Iterable[sympy.Expr]) -> list[sympy.Expr]:
    """The few sizes that are largest at canonical hints."""
    hint = V.graph.sizevars.optimization_hint
    return sorted(sizes, key=lambda size: (-hint(size, fallback=0), str(size)))[:3]


def is_negligible(size: sympy.Expr, beside: Iterable[sympy.Expr]) -> bool:
    """Whether a size is proved to be negligible beside some other."""
    return any(_at_most(size * NEGLIGIBLE_SHARE, other) for other in beside)


def _is_tensor(name: str) -> bool:
    buffer: Any = V.graph.try_get_buffer(name)
    is_buffer = isinstance(buffer, (ir.TensorBox, ir.Buffer))
    return is_buffer and bool(buffer.has_tensor_output())


def _at_most(left: sympy.Expr, right: sympy.Expr) -> bool:
    return bool(V.graph.sizevars.statically_known_leq(left, right))
