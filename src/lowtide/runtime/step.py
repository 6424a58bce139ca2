"""A step of several program calls: learned by watching one, predicted at other sizes.

A model may be cut into several programs (graph breaks, a loss outside), and what one of them hands out lives
on while another runs. Watching one step tells the order of the calls, which tensors of one call are inputs
of another, and when what was handed out is gone. None of that depends on sizes, so the same step at other
sizes has the peak

    max over calls of (bytes that other calls still hold) + (largest footprint within the call)

       forward 1   forward 2   backward 2   backward 1
       [--state 1 ----------------------------------)
       [--output ------------)
                   [--state 2 -------------)
                                           [-gradient)

Bytes that no program allocates (eager operators between the calls, the optimizer) are not part of it.
"""

import contextlib
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from lowtide.analysis import MemoryProfile, memory_profile
from lowtide.errors import LowtideError
from lowtide.ir import BufferKind, Output, Program, Statement
from lowtide.runtime.emit import emit_sizes
from lowtide.runtime.load import load_functions
from lowtide.symbolic import dim, evaluate

Probe = Callable[[Statement, Mapping[str, int]], int]


class CallKind(StrEnum):
    """What was called."""

    FORWARD = "forward"
    BACKWARD = "backward"
    INFERENCE = "inference"


class MissingSizeError(LowtideError):
    """A prediction was asked for without a size that it depends on."""


@dataclass(frozen=True, slots=True)
class Held:
    """A buffer of an earlier call that is still alive: `call` is that call's place in the step."""

    call: int
    buffer: str


@dataclass(slots=True)
class CallRecord:
    """One call of a program in a step.

    Attributes:
        program: The program.
        kind: Which part of it ran.
        forward: Place in the step of the forward call that this backward belongs to; None otherwise.
        sizes: Dimension variables as they were when recorded.
        links: Dimension variable -> (earlier call, value, axis) where its integer comes from.
        tangents_held: Tangents that others hold during backward.
        tangents_shared: Tangents whose storage an earlier call allocated and counts.
        probe: Measures a statement whose workspace has no formula, alone and at given sizes.
        alive: Buffers of other calls that were alive at entry.
        own_outputs_alive: For a backward, buffers under its forward's outputs that were alive at entry.
    """

    program: Program
    kind: CallKind
    forward: int | None
    sizes: Mapping[str, int]
    links: Mapping[str, tuple[int, str, int]]
    probe: Probe
    tangents_held: frozenset[str] = frozenset()
    tangents_shared: frozenset[str] = frozenset()
    alive: tuple[Held, ...] = ()
    own_outputs_alive: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class StepPeak:
    """The predicted peak of a step.

    Attributes:
        bytes: The largest number of bytes that the step's programs hold at once.
        call: Place of the call during which it is reached.
        statement: Name of the statement that runs then.
        held_elsewhere_bytes: The part that other calls hold.
        probed: Workspaces without a formula, whose bytes were measured by running their call alone.
    """

    bytes: int
    call: int
    statement: str
    held_elsewhere_bytes: int
    probed: tuple[str, ...] = ()


@dataclass(slots=True)
class Step:
    """A recorded step. Made by `record_step`; empty until its block ends."""

    calls: list[CallRecord] = field(default_factory=list)

    def predict(self, sizes: Mapping[str, int] | None = None) -> StepPeak:
        """Predict the peak of this step at other sizes.

        Args:
            sizes: Named dimension (batch, sequence, ...) -> integer. None: the sizes of the recorded step.

        Returns:
            The peak. Exact where every workspace has a formula; one without is measured by running its call alone.

        Raises:
            MissingSizeError: If a variable is neither named, nor linked to an earlier call, nor a function of others.

        Cost: linear in statements, and one run of each call whose workspace has no formula.
        """
        valuations = self.valuations(sizes)
        best = StepPeak(0, -1, "", 0)
        probed: dict[str, None] = {}
        for place, call in enumerate(self.calls):
            held = sum(self._held_bytes(entry, valuations) for entry in call.alive)
            footprints, first, measured = self._footprints(call, valuations[place])
            probed.update(dict.fromkeys(measured))
            if not len(footprints):
                continue
            index = int(np.argmax(footprints))
            total = int(footprints[index]) + held
            if total > best.bytes:
                best = StepPeak(total, place, call.program.statements[first + index].name, held)
        return replace(best, probed=tuple(probed))

    def timeline(self, sizes: Mapping[str, int] | None = None) -> tuple[int, ...]:
        """Predicted bytes during each statement of each call, in the order in which they run."""
        valuations = self.valuations(sizes)
        totals: list[int] = []
        for place, call in enumerate(self.calls):
            held = sum(self._held_bytes(entry, valuations) for entry in call.alive)
            footprints, _, _ = self._footprints(call, valuations[place])
            totals.extend(int(f) + held for f in footprints)
        return tuple(totals)

    def valuations(self, sizes: Mapping[str, int] | None = None) -> list[Mapping[str, int]]:
        """The integers of every dimension variable of every call, at the given named sizes."""
        valuations: list[Mapping[str, int]] = []
        for place, call in enumerate(self.calls):
            if call.forward is not None:
                valuations.append(valuations[call.forward])
            elif sizes is None:
                valuations.append({**call.sizes, **_machine(call.program)})
            else:
                valuations.append(self._valuation(place, sizes, valuations))
        return valuations

    def _valuation(
        self, place: int, sizes: Mapping[str, int], earlier: Sequence[Mapping[str, int]]
    ) -> Mapping[str, int]:
        call = self.calls[place]
        program = call.program
        known: dict[str, int] = {}
        missing: list[str] = []
        for binding in program.entry_dims:
            name = program.dim_names.get(binding.dim, binding.dim)
            if binding.dim in call.links:
                source, value, axis = call.links[binding.dim]
                extent = self.calls[source].program.values[value].shape[axis]
                known[binding.dim] = evaluate(extent, earlier[source])
            elif name in sizes:
                known[binding.dim] = sizes[name]
            elif binding.axis is None and not binding.code and not _is_extent(program, binding.dim):
                known[binding.dim] = call.sizes[binding.dim]  # a plain integer argument stays what it was
            elif not binding.code:
                missing.append(name)
        for variable in program.run_time_dims:
            name = program.dim_names.get(variable, variable)
            if name in sizes:
                known[variable] = sizes[name]
            else:
                missing.append(name)
        if missing:
            raise MissingSizeError(
                "A prediction needs the size of every dimension.",
                found=f"no size for {', '.join(sorted(set(missing)))}; given: {', '.join(sizes) or 'none'}",
                where=f"call {place} of the step, program {program.name}",
                fix=f"pass these names too; the program's are {', '.join(sorted(program.dim_names.values()))}",
            )
        return size_deriver(program)(known)

    def _held_bytes(self, entry: Held, valuations: Sequence[Mapping[str, int]]) -> int:
        program = self.calls[entry.call].program
        return evaluate(program.buffers[entry.buffer].size, valuations[entry.call])

    def _footprints(self, call: CallRecord, valuation: Mapping[str, int]) -> tuple[Any, int, list[str]]:
        program = call.program
        split = program.first_backward
        first, stop = (split, len(program.statements)) if call.kind is CallKind.BACKWARD else (0, split)
        profile = self._profile(call)
        footprints = profile.at(valuation)[first:stop].copy()
        measured: list[str] = []
        for place, statement in enumerate(program.statements[first:stop]):
            unknown = [workspace.name for workspace in statement.workspace if workspace.size is None]
            if unknown:
                footprints[place] += call.probe(statement, valuation)
                measured += unknown
        return footprints, first, measured

    def _profile(self, call: CallRecord) -> MemoryProfile:
        held: bool | Collection[str] = True if call.kind is not CallKind.BACKWARD else call.own_outputs_alive
        return memory_profile(
            call.program,
            outputs_held=held,
            tangents_held=call.tangents_held - call.tangents_shared,
            counted_elsewhere=call.tangents_shared,
        )


def _machine(program: Program) -> Mapping[str, int]:
    return {"threads": torch.get_num_threads()} if "threads" in program.scope.ranges else {}


def _is_extent(program: Program, variable: str) -> bool:
    """Whether a variable is the length of some tensor input along some axis."""
    extents = (extent for name in program.inputs if name in program.values for extent in program.values[name].shape)
    return any(variable in extent.dims for extent in extents)


def size_deriver(program: Program) -> Callable[[Mapping[str, int]], dict[str, int]]:
    """Make the function that completes a valuation by what the program computes from other sizes at entry.

    Cost: compiles one small function; calling it takes time linear in the variables.
    """
    derive = load_functions(emit_sizes(program), {}, f"{program.name} sizes")["derive"]

    def complete(known: Mapping[str, int]) -> dict[str, int]:
        found = {name: value for name, value in derive(known).items() if value is not None}
        return {**found, **known}

    return complete


_COUNTED_WHILE_SAVED = (BufferKind.INTERMEDIATE, BufferKind.NUMBER)


@dataclass(slots=True)
class _HandedOut:
    """A tensor that a call handed out: alive until its storage's weak reference expires."""

    held: Held
    value: str
    shape: tuple[int, ...]
    storage: StorageWeakRef


@dataclass(slots=True)
class _Saved:
    """What a forward call saved: alive until backward releases the state, or the state is dropped."""

    call: int
    state: weakref.ref[Any]
    buffers: tuple[str, ...]


class StepRecorder:
    """Watches the calls of one step, in the order in which they are made."""

    def __init__(self) -> None:
        self.step = Step()
        self._handed_out: list[_HandedOut] = []
        self._saved: list[_Saved] = []

    def enter_forward(
        self, program: Program, kind: CallKind, sizes: Mapping[str, int], args: Sequence[Any], probe: Probe
    ) -> int:
        """Note that a forward or inference call begins; returns its place in the step."""
        alive = self._alive(None)
        links: dict[str, tuple[int, str, int]] = {}
        variables = {dim(binding.dim): binding.dim for binding in program.entry_dims}
        for name, arg in zip(program.inputs, args, strict=True):
            origin = self._origin(arg) if isinstance(arg, torch.Tensor) else None
            if origin is None:
                continue
            for axis, extent in enumerate(program.values[name].shape):
                if extent in variables:
                    links.setdefault(variables[extent], (origin.held.call, origin.value, axis))
        self.step.calls.append(CallRecord(program, kind, None, dict(sizes), links, probe, alive=alive))
        return len(self.step.calls) - 1

    def leave_forward(self, place: int, outputs: Sequence[Any], state: Any, saved: Sequence[str]) -> None:
        """Note what a forward or inference call hands out, and which values it saved."""
        program = self.step.calls[place].program
        self._hand_out(place, program.forward_outputs, outputs)
        if state is not None:
            buffers = dict.fromkeys(program.values[name].buffer for name in saved)
            counted = tuple(b for b in buffers if program.buffers[b].kind in _COUNTED_WHILE_SAVED)
            self._saved.append(_Saved(place, weakref.ref(state), counted))

    def enter_backward(self, state: Any, tangents: Sequence[Any], held: Sequence[bool]) -> int | None:
        """Note that a backward begins; None if its forward was not watched."""
        forward = next((saved.call for saved in self._saved if saved.state() is state), None)
        if forward is None:
            return None
        program = self.step.calls[forward].program
        buffers = [program.values[name].buffer for name in program.tangents]
        origins = [self._origin(t) if isinstance(t, torch.Tensor) else None for t in tangents]
        # An earlier call's gradient that nobody else holds goes with its last use here, so it is counted here.
        passed_on = {o.held for o, h in zip(origins, held, strict=True) if o is not None and not h}
        alive = tuple(entry for entry in self._alive(forward) if entry not in passed_on)
        shared = [o is not None and h for o, h in zip(origins, held, strict=True)]
        self.step.calls.append(
            CallRecord(
                program,
                CallKind.BACKWARD,
                forward,
                self.step.calls[forward].sizes,
                {},
                self.step.calls[forward].probe,
                tangents_held=frozenset(b for b, h in zip(buffers, held, strict=True) if h),
                tangents_shared=frozenset(b for b, s in zip(buffers, shared, strict=True) if s),
                alive=alive,
                own_outputs_alive=frozenset(h.held.buffer for h in self._handed_out if h.held.call == forward),
            )
        )
        place = len(self.step.calls) - 1
        for name, tangent, elsewhere, origin in zip(program.tangents, tangents, held, origins, strict=True):
            if elsewhere and origin is None:
                # The caller of backward keeps the first gradient until the whole backward is over.
                self._note(Held(place, program.values[name].buffer), name, tangent)
        return place

    def leave_backward(self, place: int | None, gradients: Sequence[Any], state: Any, *, kept: bool) -> None:
        """Note the gradients that a backward hands out, and whether it released its state."""
        if place is None:
            return
        self._hand_out(place, self.step.calls[place].program.backward_outputs, gradients)
        if not kept:
            self._saved = [saved for saved in self._saved if saved.state() is not state]

    def _hand_out(self, place: int, outputs: Sequence[Output], tensors: Sequence[Any]) -> None:
        program = self.step.calls[place].program
        for out, tensor in zip(outputs, tensors, strict=True):
            if out.value is None or not isinstance(tensor, torch.Tensor):
                continue
            buffer = program.values[out.value].buffer
            if program.buffers[buffer].kind in (BufferKind.INTERMEDIATE, BufferKind.TANGENT):
                self._note(Held(place, buffer), out.value, tensor)

    def _note(self, held: Held, value: str, tensor: torch.Tensor) -> None:
        storage = StorageWeakRef(tensor.untyped_storage())
        self._handed_out.append(_HandedOut(held, value, tuple(tensor.shape), storage))

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
                alive.update(dict.fromkeys(Held(saved.call, buffer) for buffer in saved.buffers))
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
