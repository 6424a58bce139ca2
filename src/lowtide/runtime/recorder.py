"""Watches the program calls of a step: their order, what feeds what, and how long what they hand out lives.

Everything is learned from weak references, so watching keeps nothing alive.
"""

import contextlib
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from lowtide.ir import BufferKind, Output
from lowtide.runtime.form import BackwardForm
from lowtide.runtime.step import CallKind, CallRecord, Code, Held, Step, machine_sizes
from lowtide.symbolic import dim

_COUNTED_WHILE_SAVED = (BufferKind.INTERMEDIATE, BufferKind.NUMBER)


@dataclass(slots=True)
class _HandedOut:
    """A tensor that a call handed out: alive until its storage's weak reference expires."""

    held: Held
    shape: tuple[int, ...]
    storage: StorageWeakRef


@dataclass(slots=True)
class _Saved:
    """What a forward call saved: alive until backward releases the state, or the state is dropped."""

    call: int
    state: weakref.ref[Any]
    values: tuple[str, ...]


class StepRecorder:
    """Watches the calls of one step, in the order in which they are made."""

    def __init__(self) -> None:
        self.step = Step()
        self._handed_out: list[_HandedOut] = []
        self._saved: list[_Saved] = []

    def enter_forward(self, code: Code, kind: CallKind, sizes: Mapping[str, int], args: Sequence[Any]) -> int:
        """Note that a forward or inference call begins; returns its place in the step."""
        program = code.program
        alive = self._alive(None)
        links: dict[str, tuple[int, str, int]] = {}
        variables = {dim(binding.dim): binding.dim for binding in program.entry_dims}
        for name, arg in zip(program.inputs, args, strict=True):
            origin = self._origin(arg) if isinstance(arg, torch.Tensor) else None
            if origin is None:
                continue
            for axis, extent in enumerate(program.values[name].shape):
                if extent in variables:
                    links.setdefault(variables[extent], (origin.held.call, origin.held.value, axis))
        self.step.calls.append(CallRecord(code, kind, None, {**sizes, **machine_sizes()}, links, alive=alive))
        return len(self.step.calls) - 1

    def leave_forward(self, place: int, outputs: Sequence[Any], state: Any, saved: Sequence[str]) -> None:
        """Note what a forward or inference call hands out, and which values it saved."""
        program = self.step.calls[place].program
        self._hand_out(place, program.forward_outputs, outputs)
        if state is not None:
            counted = tuple(n for n in saved if program.buffers[program.values[n].buffer].kind in _COUNTED_WHILE_SAVED)
            self._saved.append(_Saved(place, weakref.ref(state), counted))

    def enter_backward(
        self, state: Any, tangents: Sequence[Any], held: Sequence[bool], form: BackwardForm
    ) -> int | None:
        """Note that a backward begins; None if its forward was not watched."""
        own = next((saved for saved in self._saved if saved.state() is state), None)
        if own is None:
            return None
        forward = own.call
        code = self.step.calls[forward].code
        program = code.program
        buffers = [program.values[name].buffer for name in program.tangents]
        origins = [self._origin(t) if isinstance(t, torch.Tensor) else None for t in tangents]
        # An earlier call's gradient that nobody else holds goes with its last use here, so it is counted here.
        passed_on = {o.held for o, h in zip(origins, held, strict=True) if o is not None and not h}
        alive = tuple(entry for entry in self._alive(forward) if entry not in passed_on)
        shared = [o is not None and h for o, h in zip(origins, held, strict=True)]
        self.step.calls.append(
            CallRecord(
                code,
                CallKind.BACKWARD,
                forward,
                self.step.calls[forward].sizes,
                {},
                tangents_held=frozenset(b for b, h in zip(buffers, held, strict=True) if h),
                tangents_shared=frozenset(b for b, s in zip(buffers, shared, strict=True) if s),
                alive=alive,
                form=form,
                kept=frozenset(own.values) if form is BackwardForm.KEEPING else frozenset(),
                own_outputs_alive=frozenset(h.held.value for h in self._handed_out if h.held.call == forward),
            )
        )
        place = len(self.step.calls) - 1
        for name, tangent, elsewhere, origin in zip(program.tangents, tangents, held, origins, strict=True):
            if elsewhere and origin is None:
                # The caller of backward keeps the first gradient until the whole backward is over.
                self._note(Held(place, name), tangent)
        return place

    def leave_backward(self, place: int | None, gradients: Sequence[Any], state: Any, form: BackwardForm) -> None:
        """Note the gradients that a backward hands out, and whether it released its state."""
        if place is None:
            return
        self._hand_out(place, self.step.calls[place].program.backward_outputs, gradients)
        if form is not BackwardForm.KEEPING:
            self._saved = [saved for saved in self._saved if saved.state() is not state]

    def _hand_out(self, place: int, outputs: Sequence[Output], tensors: Sequence[Any]) -> None:
        program = self.step.calls[place].program
        for out, tensor in zip(outputs, tensors, strict=True):
            if out.value is None or not isinstance(tensor, torch.Tensor):
                continue
            buffer = program.values[out.value].buffer
            if program.buffers[buffer].kind in (BufferKind.INTERMEDIATE, BufferKind.TANGENT):
                self._note(Held(place, out.value), tensor)

    def _note(self, held: Held, tensor: torch.Tensor) -> None:
        storage = StorageWeakRef(tensor.untyped_storage())
        # Storage that was handed on, or taken over, belongs to the call that handed it out last.
        self._handed_out = [h for h in self._handed_out if h.held.call == held.call or h.storage.cdata != storage.cdata]
        self._handed_out.append(_HandedOut(held, tuple(tensor.shape), storage))

    def _origin(self, tensor: torch.Tensor) -> _HandedOut | None:
        """What handed out this tensor's storage, still alive."""
        key = tensor.untyped_storage()._cdata
        for handed in self._handed_out:
            if handed.storage.cdata == key and not handed.storage.expired() and handed.shape == tuple(tensor.shape):
                return handed
        return None

    def _alive(self, own: int | None) -> tuple[Held, ...]:
        """Counted buffers of other calls that exist now: handed out and not dropped, or saved in a state."""
        self._handed_out = [h for h in self._handed_out if not h.storage.expired()]
        self._saved = [s for s in self._saved if s.state() is not None]
        alive = {h.held: None for h in self._handed_out if h.held.call != own}
        for saved in self._saved:
            if saved.call != own:
                alive.update(dict.fromkeys(Held(saved.call, value) for value in saved.values))
        return tuple(alive)


_recorders: list[StepRecorder] = []


def active_recorder() -> StepRecorder | None:
    """The recorder that watches calls now; None outside of `record_step`.

    Backward may run on a thread of torch's own, so this is a fact of the process, not of a thread. Nothing
    that a program computes depends on it.
    """
    return _recorders[-1] if _recorders else None


@contextlib.contextmanager
def record_step() -> Iterator[Step]:
    """Watch the program calls made inside the block.

    Yields:
        The step, complete when the block has ended.

    Example:
        with lowtide.record_step() as step:
            model(**batch).loss.backward()
        step.predict({"batch": 8, "sequence": 512}).bytes
    """
    recorder = StepRecorder()
    _recorders.append(recorder)
    try:
        yield recorder.step
    finally:
        _recorders.remove(recorder)
