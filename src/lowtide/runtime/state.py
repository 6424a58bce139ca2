"""What stays alive between forward and backward, owned by the runtime and carried by autograd as one object.

autograd sees a `SavedState` and nothing in it: the runtime may release every activation by itself. What
autograd would have checked is checked here: that no tensor which others can reach was changed in place, and
that a graph is not run backward twice after its state was released.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from torch._C._autograd import _get_current_graph_task_keep_graph
from torch._library.opaque_object import register_opaque_type
from torch._opaque_base import OpaqueBase

from lowtide.runtime.recorder import active_recorder

Backward = Callable[[list[Any], tuple[int, ...], list[Any]], list[Any]]


class SavedState(OpaqueBase):
    """The saved tensors and integers of one forward call.

    Args:
        tensors: Saved tensors in the emitted order; released by the backward call.
        dims: Saved integers.
        watched: Tensors that others can change: inputs, and second handles on outputs.
        backward: Runs backward and releases the tensors.
        backward_keeping: Runs backward and leaves every saved tensor as it is (`retain_graph=True`).
    """

    def __init__(
        self,
        tensors: list[Any],
        dims: tuple[int, ...],
        watched: Sequence[Any],
        backward: Backward,
        backward_keeping: Callable[[], Backward],
    ) -> None:
        self._tensors: list[Any] | None = tensors
        self._dims = dims
        # Inference tensors cannot be changed in a way that matters to autograd, and have no version.
        self._watched = [(t, t._version) for t in watched if not t.is_inference()]
        self._backward = backward
        self._backward_keeping = backward_keeping

    def run_backward(self, tangents: list[Any], *, keep: bool) -> list[Any]:
        """Run backward once.

        Args:
            tangents: Gradients of the outputs; the list is emptied as they are used.
            keep: Leave the state usable for another backward.

        Raises:
            RuntimeError: If the state was released by an earlier backward, or a saved tensor was changed in
                place; the messages are those that autograd gives in the same situations.
        """
        if self._tensors is None:
            raise RuntimeError(
                "Trying to backward through the graph a second time (or directly access saved tensors after they "
                "have already been freed). Saved intermediate values of the graph are freed when you call "
                ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
                "graph a second time or if you need to access saved tensors after calling backward."
            )
        for tensor, version in self._watched:
            if tensor._version != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace "
                    f"operation: [{tensor.type()} {list(tensor.shape)}] is at version {tensor._version}; expected "
                    f"version {version} instead."
                )
        recorder = active_recorder()
        if recorder is None:
            return self._run(tangents, keep=keep)
        elsewhere = [_held_elsewhere(tangents, i) for i in range(len(tangents))]
        place = recorder.enter_backward(self, tangents, elsewhere, kept=keep)
        gradients = self._run(tangents, keep=keep)
        recorder.leave_backward(place, gradients, self, kept=keep)
        return gradients

    def _run(self, tangents: list[Any], *, keep: bool) -> list[Any]:
        assert self._tensors is not None, "bug: a released state is run"
        if keep:
            return self._backward_keeping()(list(self._tensors), self._dims, tangents)
        tensors, self._tensors, self._watched = self._tensors, None, []
        return self._backward(tensors, self._dims, tangents)


def _held_elsewhere(tangents: list[Any], index: int) -> bool:
    """Whether anyone but this list holds a tangent; two references are the list's and the argument's."""
    return sys.getrefcount(tangents[index]) > 2


register_opaque_type(SavedState, typ="reference")


def graph_is_kept() -> bool:
    """Whether the backward now running was asked to keep its graph (`retain_graph` or `create_graph`)."""
    return bool(_get_current_graph_task_keep_graph())
