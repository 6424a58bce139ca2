"""The torch.compile backend: `torch.compile(model, backend="lowtide", dynamic=True)`.

A graph that dynamo captured becomes one program. Three things send it to torch's own path (Inductor) instead, each
with a `FallbackWarning`: something in the graph that lowtide cannot account for, calls under saved-tensor hooks, and
compiled autograd.
"""

import dataclasses
import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._dynamo.backends.registry import lookup_backend

from lowtide import __version__
from lowtide.capture import compiled_autograd_is_on, copy_captured, current_backend, plain_function
from lowtide.errors import LowtideError
from lowtide.identity import source_digest
from lowtide.ir import Program, parse_program, render_program, verify_program
from lowtide.lower.joint import Assembled, Hooks, LoadableProgram, UnsupportedGraphError, compile_title
from lowtide.lower.versions import Lowering, choose_lowering
from lowtide.options import Options
from lowtide.plan import Plan, Rejected, apply_plan, check_plan, plan_from_json, plan_to_json
from lowtide.runtime.choice import OrderChooser
from lowtide.runtime.emit import Emitted, emit_program, emit_sizes
from lowtide.runtime.executable import Executable
from lowtide.runtime.form import BackwardForm
from lowtide.runtime.registry import Fallback, FallbackWarning, compiled_programs
from lowtide.runtime.saved_hooks import HookedCalls, Lazy, saved_tensor_hooks_are_active
from lowtide.runtime.state import SavedState, graph_is_kept
from lowtide.runtime.variant import Variant
from lowtide.schedule import OrderPeak, make_plans, plan_order


@dataclasses.dataclass(frozen=True)
class Payload:
    """What an artifact keeps of a program.

    Attributes:
        program: Its text.
        plans: One for each kept order.
        emitted: The code of each planned program.
        sizes: The code that tells dimension variables from the arguments of a call.
        peaks: Their peaks, by which one is chosen; empty where there is one.
        kept_apart: How many pairs of loops could have been one kernel and were not, to spare memory.
    """

    program: str
    plans: tuple[str, ...]
    emitted: tuple[Emitted, ...]
    sizes: str
    peaks: tuple[OrderPeak, ...]
    kept_apart: int


def lowtide(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compile a captured graph so that its memory is planned and accounted for.

    Args:
        gm: Graph captured by dynamo.
        example_inputs: Its inputs, fake or real.
        options: Options of lowtide (`lowtide.options.Options`), and Inductor options beside them.
        mode: As for torch.compile's own backend.

    Returns:
        The compiled callable.

    Raises:
        UnknownOptionError, OptionValueError, ConflictingOptionError, IneffectiveOptionError, UnknownLoweringError:
            If the options are wrong.
        LowtideError: If the graph cannot be accounted for and the option `fallback` is False.
    """
    chosen = Options.parse(options, mode)
    lowering = choose_lowering(torch.__version__, chosen.lowering)
    return _Compilation(chosen, lowering, current_backend(), compile_title()).compile(gm, example_inputs)


@dataclasses.dataclass(frozen=True)
class _Compilation:
    """One captured graph on its way to a callable.

    Attributes:
        options: What the caller chose.
        lowering: How the graph is lowered.
        owner: The backend object that its programs belong to.
        title: Name of the graph.
    """

    options: Options
    lowering: Lowering
    owner: object | None
    title: str

    def compile(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compile the form that this call needs; the other is made when a call needs it."""
        spare = copy_captured(gm)
        is_dynamic = any(isinstance(value, torch.SymInt) for value in example_inputs)
        if compiled_autograd_is_on():
            return self._fall_back(self._replayed(), gm, example_inputs)
        if saved_tensor_hooks_are_active():
            plain = self._fall_back(self._hooked(), gm, example_inputs)
            return HookedCalls(Lazy(lambda: self._later(spare, self.compile, is_dynamic)), plain)
        try:
            program = self._program(gm, example_inputs)
        except LowtideError as error:
            return self._fall_back(error, spare, example_inputs)

        def plain_later() -> Callable[..., Any]:
            self._report(self._hooked())
            return self._later(spare, self._plain, is_dynamic)

        return HookedCalls(program, Lazy(plain_later))

    def _program(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """The graph as a lowtide program."""
        hooks = Hooks(
            plan=_plan,
            load=_load,
            keep_graph=graph_is_kept,
            state_value=_empty_state,
            # Workspace formulas depend on the processor, which torch's cache key leaves out for some graphs.
            identity=f"lowtide {__version__} {source_digest()} {torch.backends.cpu.get_cpu_capability()}",
        )
        with compiled_programs.collecting(self.owner):
            if self.lowering == "aten":
                from lowtide.lower.aten import compile_with_aten

                return compile_with_aten(gm, example_inputs, hooks)
            # Not at the top: a version of torch that gets the aten lowering may not be able to import this.
            from lowtide.lower.inductor import compile_with_inductor

            return compile_with_inductor(gm, example_inputs, hooks, config_patches=self.options.inductor)

    def _plain(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """The graph as torch.compile's own backend compiles it."""
        inductor: Callable[..., Any] = lookup_backend("inductor")
        return inductor(gm, example_inputs, config_patches=dict(self.options.inductor))

    def _later(self, gm: torch.fx.GraphModule, compiler: Callable[..., Any], is_dynamic: bool) -> Callable[..., Any]:
        """Let dynamo capture the captured graph once more: what it knew when it called the backend is gone."""
        return torch.compile(plain_function(gm), backend=compiler, dynamic=is_dynamic)

    def _fall_back(
        self, error: LowtideError, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]
    ) -> Callable[..., Any]:
        """Compile on torch's own path. Reported afterwards, because torch may interrupt a compilation to repeat it."""
        if not self.options.fallback:
            raise error
        plain = self._plain(gm, example_inputs)
        self._report(error)
        return plain

    def _report(self, error: LowtideError) -> None:
        if not self.options.fallback:
            raise error
        with compiled_programs.collecting(self.owner):
            compiled_programs.note_fallback(Fallback(self.title, str(error)))
        warnings.warn(f"Graph {self.title} runs on torch's own path.\n{error}", FallbackWarning, stacklevel=2)

    def _hooked(self) -> UnsupportedGraphError:
        return UnsupportedGraphError(
            "Saved-tensor hooks would see nothing of a program's state.",
            found="a call under torch.utils.checkpoint around a compiled module, save_on_cpu or the like",
            where=f"graph {self.title}",
            fix="put the checkpoint inside the compiled region, or do without the hooks; other calls run as programs.",
        )

    def _replayed(self) -> UnsupportedGraphError:
        return UnsupportedGraphError(
            "Compiled autograd replays the graphs of backward, and a lowtide program is no graph.",
            found="compiled autograd is on",
            where=f"graph {self.title}",
            fix="switch compiled autograd off: a program holds its backward already.",
        )


def _plan(assembled: Assembled) -> Payload:
    program = assembled.program
    verify_program(program)
    kept = make_plans(program)
    for plan in kept.plans:
        _accept(program, plan)
    return Payload(
        program=render_program(program),
        plans=tuple(plan_to_json(plan) for plan in kept.plans),
        emitted=tuple(emit_program(apply_plan(program, plan)) for plan in kept.plans),
        sizes=emit_sizes(program),
        peaks=kept.peaks,
        kept_apart=assembled.kept_apart,
    )


def _accept(program: Program, plan: Plan) -> None:
    verdict = check_plan(program, plan)
    if isinstance(verdict, Rejected):
        raise LowtideError(
            "A plan was rejected by the checker; nothing was run.",
            found=f"{verdict.reason.value}: {verdict.detail}",
            where=f"program {program.name}",
            fix="report this with the model; without the fallback option set to False it runs on torch's own path.",
        )


def _load(artifact: LoadableProgram, kernels: Mapping[str, Any]) -> Executable:
    payload: Payload = artifact.payload
    plans = [plan_from_json(text) for text in payload.plans]
    captured = functools.cache(lambda: parse_program(payload.program))

    def variant(number: int) -> Variant:
        def planned(form: BackwardForm) -> Program:
            if form is BackwardForm.PLAIN:
                return apply_plan(captured(), plans[number])
            overwrites = form is not BackwardForm.KEEPING
            plan = plan_order(captured(), plans[number].order, across_boundary=overwrites, into_tangents=False)
            return apply_plan(captured(), plan)

        return Variant(
            payload.emitted[number],
            kernels,
            planned=planned,
            title=artifact.title if len(plans) == 1 else f"{artifact.title} order {number}",
        )

    executable = Executable(
        [variant(number) for number in range(len(plans))],
        kernels,
        sizes=payload.sizes,
        captured=captured,
        chooser=OrderChooser(payload.peaks),
        kept_apart=payload.kept_apart,
        title=artifact.title,
    )
    compiled_programs.note_program(executable)
    return executable


def _empty_state() -> SavedState:
    return SavedState([], (), (), lambda _: _never)


def _never(*_: Any) -> list[Any]:
    raise AssertionError("bug: an example state was run backward")
