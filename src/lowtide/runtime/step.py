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

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from lowtide.analysis import MemoryProfile, memory_profile
from lowtide.errors import LowtideError
from lowtide.ir import Program, Statement
from lowtide.runtime.emit import emit_sizes
from lowtide.runtime.form import BackwardForm
from lowtide.runtime.load import load_functions
from lowtide.runtime.probe import measure_unknown_workspace
from lowtide.symbolic import evaluate


class CallKind(StrEnum):
    """What was called."""

    FORWARD = "forward"
    BACKWARD = "backward"
    INFERENCE = "inference"


class MissingSizeError(LowtideError):
    """A prediction was asked for without a size that it depends on."""


class Code(Protocol):
    """What a call ran, as far as a prediction needs it."""

    @property
    def program(self) -> Program:
        """The program in one of its orders."""
        ...

    @property
    def captured(self) -> Program:
        """The program before planning."""
        ...

    def program_at(self, valuation: Mapping[str, int], form: BackwardForm = BackwardForm.PLAIN) -> Program:
        """The program in the order that runs at given sizes, with a form of backward."""
        ...

    def probe(self, statement: Statement, valuation: Mapping[str, int]) -> int:
        """Measure a statement whose workspace has no formula."""
        ...


class SizeError(LowtideError):
    """A prediction was asked for at sizes that a program does not run at."""


@dataclass(frozen=True, slots=True)
class Held:
    """A value of an earlier call whose buffer is still alive: `call` is that call's place in the step."""

    call: int
    value: str


@dataclass(frozen=True)
class CallRecord:
    """One call of a program in a step.

    Attributes:
        code: What was called.
        kind: Which part of it ran.
        forward: Place in the step of the forward call that this backward belongs to; None otherwise.
        sizes: Dimension variables as they were when recorded.
        links: Dimension variable -> (earlier call, value, axis) where its integer comes from.
        tangents_held: Tangents that others hold during backward.
        tangents_shared: Tangents whose storage an earlier call allocated and counts.
        alive: Values of other calls whose buffers were alive at entry.
        own_outputs_alive: For a backward, values that its forward handed out whose buffers were alive at entry.
        form: For a backward, the form in which it ran.
        kept: For a backward that leaves its state usable (the form KEEPING), the values saved in it.
    """

    code: Code
    kind: CallKind
    forward: int | None
    sizes: Mapping[str, int]
    links: Mapping[str, tuple[int, str, int]]
    tangents_held: frozenset[str] = frozenset()
    tangents_shared: frozenset[str] = frozenset()
    alive: tuple[Held, ...] = ()
    own_outputs_alive: frozenset[str] = frozenset()
    form: BackwardForm = BackwardForm.PLAIN
    kept: frozenset[str] = frozenset()

    @property
    def program(self) -> Program:
        """The program in one of its orders: inputs, outputs and dimension variables are those of every order."""
        return self.code.program

    @property
    def statements(self) -> range:
        """Steps of the program that this call runs."""
        split, stop = self.program.first_backward, len(self.program.statements)
        return range(split, stop) if self.kind is CallKind.BACKWARD else range(split)

    def profile_at(self, valuation: Mapping[str, int]) -> MemoryProfile:
        """The footprints of the order that runs at given sizes, given what others hold during this call. Kept."""
        program = self.code.program_at(valuation, self.form)
        if id(program) not in self._profiles:
            held: bool | Collection[str] = True
            saved = {program.values[name].buffer for name in self.kept}
            if self.kind is CallKind.BACKWARD:
                held = {program.values[name].buffer for name in self.own_outputs_alive}
            self._profiles[id(program)] = memory_profile(
                program,
                outputs_held=held,
                tangents_held=(self.tangents_held - self.tangents_shared) | saved,
                counted_elsewhere=self.tangents_shared,
            )
        return self._profiles[id(program)]

    @cached_property
    def _profiles(self) -> dict[int, MemoryProfile]:
        return {}

    @cached_property
    def complete_sizes(self) -> Callable[[Mapping[str, int]], dict[str, int]]:
        """See `size_deriver`."""
        return size_deriver(self.program)


@dataclass(frozen=True, slots=True)
class StepPeak:
    """The predicted peak of a step.

    Attributes:
        bytes: The largest number of bytes that the step's programs hold at once.
        call: Place of the call during which it is reached.
        statement: Name of the statement that runs then.
        held_elsewhere_bytes: The part that other calls hold.
        probed: Workspaces without a formula, whose bytes were measured by running their call alone, on zeros.
        left_out: Workspaces without a formula that could not be measured; the step may take them on top.
        left_out_because: For each of them, why.
    """

    bytes: int
    call: int
    statement: str
    held_elsewhere_bytes: int
    probed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    left_out_because: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _CallAtSizes:
    """One call at known sizes: its statements, the footprint of each, what other calls hold, unknown workspaces.

    Attributes:
        left_out: Workspace -> why it could not be measured.
    """

    footprints: npt.NDArray[np.int64]
    statements: Sequence[Statement]
    held_bytes: int
    probed: Sequence[str]
    left_out: Mapping[str, str]


@dataclass(slots=True)
class Step:
    """A recorded step. Made by `record_step`; empty until its block ends."""

    calls: list[CallRecord] = field(default_factory=list)

    def predict(self, sizes: Mapping[str, int] | None = None) -> StepPeak:
        """Predict the peak of this step at other sizes.

        Args:
            sizes: Named dimension (batch, sequence, ...) -> integer. None: the sizes of the recorded step.

        Returns:
            The peak. Exact where every workspace has a formula; one without is measured by running its call alone, on
            zeros, and differs where an operator's workspace depends on values.

        Raises:
            SizeError: If a size lies outside of the scope of a program.
            MissingSizeError: If a variable is neither named, nor linked to an earlier call, nor a function of others.

        Cost: linear in statements; the first time at these sizes also one run of each call without a formula.
        """
        best = StepPeak(0, -1, "", 0)
        probed: dict[str, None] = {}
        left_out: dict[str, str] = {}
        for place, call in enumerate(self._calls_at(self.valuations(sizes))):
            probed.update(dict.fromkeys(call.probed))
            left_out.update(call.left_out)
            if not len(call.footprints):
                continue
            index = int(np.argmax(call.footprints))
            total = int(call.footprints[index]) + call.held_bytes
            if total > best.bytes:
                best = StepPeak(total, place, call.statements[index].name, call.held_bytes)
        return replace(best, probed=tuple(probed), left_out=tuple(left_out), left_out_because=tuple(left_out.values()))

    def timeline(self, sizes: Mapping[str, int] | None = None) -> tuple[int, ...]:
        """Predicted bytes during each statement of each call, in the order in which they run."""
        calls = self._calls_at(self.valuations(sizes))
        return tuple(int(footprint) + call.held_bytes for call in calls for footprint in call.footprints)

    def _calls_at(self, valuations: Sequence[Mapping[str, int]]) -> Iterator[_CallAtSizes]:
        for call, valuation in zip(self.calls, valuations, strict=True):
            steps = call.statements
            profile = call.profile_at(valuation)
            reasons: dict[tuple[str, str], str] = {}
            measured = measure_unknown_workspace(profile, call.code.probe, valuation, steps, reasons)
            statements = profile.program.statements[steps.start : steps.stop]
            names = {statement.name for statement in statements}
            left_out = [key for key in profile.unknown_workspace if key[0] in names and key not in measured]
            yield _CallAtSizes(
                footprints=profile.at(valuation, measured)[steps.start : steps.stop],
                statements=statements,
                held_bytes=self._held_bytes(call, valuations),
                probed=[name for _, name in measured],
                left_out={key[1]: reasons.get(key, "only one workspace of a call is measured") for key in left_out},
            )

    def valuations(self, sizes: Mapping[str, int] | None = None) -> list[Mapping[str, int]]:
        """The integers of every dimension variable of every call, at the given named sizes."""
        valuations: list[Mapping[str, int]] = []
        for place, call in enumerate(self.calls):
            if call.forward is not None:
                valuations.append(valuations[call.forward])
            elif sizes is None:
                _require_run_time_sizes(call.program, call.sizes, place)
                valuations.append(call.sizes)
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
                fix=f"pass these names too; the program's are {', '.join(_names(program))}",
            )
        valuation = call.complete_sizes(known)
        check_sizes(program, valuation)
        return valuation

    def _held_bytes(self, call: CallRecord, valuations: Sequence[Mapping[str, int]]) -> int:
        """Bytes that other calls hold while `call` runs; buffers under several values count once."""
        others = {entry.call: self.calls[entry.call] for entry in call.alive}
        programs = {at: other.code.program_at(valuations[at], other.form) for at, other in others.items()}
        buffers = dict.fromkeys((e.call, programs[e.call].values[e.value].buffer) for e in call.alive)
        return sum(evaluate(programs[at].buffers[name].size, valuations[at]) for at, name in buffers)


def machine_sizes() -> Mapping[str, int]:
    """The machine parameters of formulas, as they are now."""
    return {"threads": torch.get_num_threads()}


def size_dims(program: Program) -> frozenset[str]:
    """The variables that sizes of buffers depend on."""
    return frozenset[str]().union(*(buffer.size.dims for buffer in program.buffers.values()))


def check_sizes(program: Program, valuation: Mapping[str, int]) -> None:
    """Require every size that bytes depend on, in the range that the program runs at; torch runs another one elsewhere.

    Raises:
        MissingSizeError: If one is missing: the stride of an argument, for instance, is no function of its lengths.
        SizeError: If one lies outside.
    """
    if missing := sorted(size_dims(program) - valuation.keys()):
        raise MissingSizeError(
            "A prediction needs a number that does not follow from the sizes given.",
            found=f"nothing for {', '.join(program.dim_names.get(name, name) for name in missing)}",
            where=f"program {program.name}",
            fix="pass it by that name; how the program gets it is in its text, under 'entry'",
        )
    for variable, (low, high) in program.scope.ranges.items():
        size = valuation.get(variable, low)
        if size < low or (high is not None and size > high):
            name = program.dim_names.get(variable, variable)
            raise SizeError(
                "A prediction was asked for at a size that the program does not run at.",
                found=f"{name} = {size}",
                where=f"program {program.name}, where {low} <= {name}{'' if high is None else f' <= {high}'}",
                fix="ask the program that torch compiled for such sizes (often one of its own for 1), or run it first",
            )


def _names(program: Program) -> list[str]:
    """What callers call the sizes of a program, those included that are known only at run time."""
    return sorted({*program.dim_names.values(), *(program.dim_names.get(d, d) for d in program.run_time_dims)})


def _require_run_time_sizes(program: Program, sizes: Mapping[str, int], place: int) -> None:
    if missing := sorted(program.run_time_dims - sizes.keys()):
        raise MissingSizeError(
            "A recorded step knows the sizes at which it was called, not those that came to be known in it.",
            found=f"no size for {', '.join(program.dim_names.get(name, name) for name in missing)}",
            where=f"call {place} of the step, program {program.name}",
            fix=f"pass all sizes by name; the program's are {', '.join(_names(program))}",
        )


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
