"""What stays alive between forward and backward, owned by the runtime and carried by autograd as one object.

autograd sees a `SavedState` and nothing in it: the runtime may release every activation by itself. What
autograd would have checked is checked here: that no tensor which others can reach was changed in place, and
that a graph is not run backward twice after its state was released.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C._autograd import _get_current_graph_task_keep_graph
from torch._library.opaque_object import register_opaque_type
from torch._opaque_base import OpaqueBase

from lowtide.runtime.form import BackwardForm
from lowtide.runtime.recorder import active_recorder

Backward = Callable[[list[Any], tuple[int, ...], list[Any]], list[Any]]


class SavedState(OpaqueBase):
    """The saved tensors and integers of one forward call.

    Args:
        tensors: Saved tensors in the emitted order; released by the backward call.
        dims: Saved integers.
        watched: Tensors that others can change: inputs, and second handles on outputs.
        backward: Gives backward in a form.
        written_tangents: Indices of the incoming gradients that the plain form writes over.
    """

    def __init__(
        self,
        tensors: list[Any],
        dims: tuple[int, ...],
        watched: Sequence[Any],
        backward: Callable[[BackwardForm], Backward],
        written_tangents: Sequence[int] = (),
    ) -> None:
        self._tensors: list[Any] | None = tensors
        self._dims = dims
        # Inference tensors cannot be changed in a way that matters to autograd, and have no version.
        self._watched = [(t, t._version) for t in watched if not t.is_inference()]
        self._backward = backward
        self._written_tangents = written_tangents

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
        form = self._form(tangents, keep)
        recorder = active_recorder()
        if recorder is None:
            return self._run(tangents, form)
        elsewhere = [_held_elsewhere(tangents, i) for i in range(len(tangents))]
        place = recorder.enter_backward(self, tangents, elsewhere, form)
        gradients = self._run(tangents, form)
        recorder.leave_backward(place, gradients, self, form)
        return gradients

    def _form(self, tangents: list[Any], keep: bool) -> BackwardForm:
        if keep:
            return BackwardForm.KEEPING
        if all(_is_ours(tangents, index) for index in self._written_tangents):
            return BackwardForm.PLAIN
        return BackwardForm.SPARING

    def _run(self, tangents: list[Any], form: BackwardForm) -> list[Any]:
        assert self._tensors is not None, "bug: a released state is run"
        if form is BackwardForm.KEEPING:
            return self._backward(form)(list(self._tensors), self._dims, tangents)
        tensors, self._tensors, self._watched = self._tensors, None, []
        return self._backward(form)(tensors, self._dims, tangents)


def _held_elsewhere(tangents: list[Any], index: int) -> bool:
    """Whether any Python object but this list holds a tangent; two references are the list's and the argument's."""
    return sys.getrefcount(tangents[index]) > 2


def _is_ours(tangents: list[Any], index: int) -> bool:
    """Whether nobody but this list can see the contents of a tangent."""
    if type(tangents[index]) is not torch.Tensor or _held_elsewhere(tangents, index) or _use_count is None:
        return False
    if _use_count(tangents[index]) != 1:  # autograd hands the same tensor to somebody else, too
        return False
    storage = tangents[index].untyped_storage()
    # Memory that torch did not allocate (numpy's, for instance) and shared memory have holders that nobody counts.
    if not storage.resizable() or (storage.device.type == "cpu" and storage.is_shared()):
        return False
    if storage.nbytes() != tangents[index].numel() * tangents[index].element_size():
        return False
    del storage
    return _holders(tangents[index]) == _OF_ONE_TENSOR


def _holders(tensor: torch.Tensor) -> tuple[int, int]:
    """References to the storage of a tensor, those of Python and those of C++."""
    storage = tensor.untyped_storage()  # the object that Python holds already, if it holds one
    return sys.getrefcount(storage), torch._C._storage_Use_Count(storage._cdata)


_OF_ONE_TENSOR = _holders(torch.empty(1))
"""The holders of a storage that belongs to one tensor and to nobody else; how many that makes differs by version."""

_use_count: Callable[[Any], int] | None = getattr(torch.Tensor, "_use_count", None)
"""References to the tensor itself, those of C++ included; a version of torch that cannot tell gets copies."""

register_opaque_type(SavedState, typ="reference")


def graph_is_kept() -> bool:
    """Whether the backward now running was asked to keep its graph (`retain_graph` or `create_graph`)."""
    return bool(_get_current_graph_task_keep_graph())
