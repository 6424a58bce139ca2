"""The torch.compile backend: `torch.compile(model, backend="lowtide", dynamic=True)`."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from lowtide import __version__
from lowtide.capture import current_backend
from lowtide.identity import source_digest
from lowtide.ir import Program, parse_program, render_program, verify_program
from lowtide.lower.inductor import Artifact, Assembled, Hooks, compile_with_inductor
from lowtide.plan import Plan, apply_plan, plan_from_json, plan_to_json
from lowtide.runtime.emit import Emitted, emit_program
from lowtide.runtime.executable import Executable
from lowtide.runtime.registry import compiled_programs
from lowtide.runtime.state import SavedState, graph_is_kept
from lowtide.schedule import choose_in_place


@dataclasses.dataclass(frozen=True)
class Payload:
    """What an artifact keeps of a program: its text, its plan, and the emitted code of the planned program."""

    program: str
    plan: str
    emitted: Emitted


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
        options: Options of lowtide, and Inductor options beside them.
        mode: As for torch.compile's own backend.

    Returns:
        The compiled callable.
    """
    hooks = Hooks(
        plan=_plan,
        load=_load,
        keep_graph=graph_is_kept,
        state_value=_empty_state,
        identity=f"lowtide {__version__} {source_digest()}",
    )
    return compile_with_inductor(gm, example_inputs, hooks, config_patches=dict(options or {}))


def _plan(assembled: Assembled) -> Payload:
    program = assembled.program
    verify_program(program)
    plan = _choose_plan(program, across_boundary=True)
    return Payload(render_program(program), plan_to_json(plan), emit_program(apply_plan(program, plan)))


def _choose_plan(program: Program, *, across_boundary: bool) -> Plan:
    reuse = choose_in_place(program, across_boundary=across_boundary)
    return Plan(tuple(range(len(program.statements))), reuse)


def _load(artifact: Artifact, kernels: Mapping[str, Any]) -> Executable:
    payload: Payload = artifact.payload

    def keeping() -> Emitted:
        program = parse_program(payload.program)
        return emit_program(apply_plan(program, _choose_plan(program, across_boundary=False)))

    executable = Executable(
        payload.emitted,
        kernels,
        program=lambda: apply_plan(parse_program(payload.program), plan_from_json(payload.plan)),
        keeping=keeping,
        title=artifact.title,
    )
    backend = current_backend()
    if backend is not None:
        compiled_programs.add(backend, executable)
    return executable


def _empty_state() -> SavedState:
    return SavedState([], (), (), _never, lambda: _never)


def _never(*_: Any) -> list[Any]:
    raise AssertionError("bug: an example state was run backward")
