"""Emitted code runs what the program says, in its order, and takes the bytes that its profile says."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st

from lowtide import measure_peak
from lowtide.analysis import dependences, memory_profile
from lowtide.ir import BufferKind, Output, Program, ProgramBuilder, Statement
from lowtide.plan import Accepted, Plan, apply_plan, check_plan
from lowtide.runtime.emit import emit_program, emit_sizes
from lowtide.runtime.load import load_functions
from lowtide.schedule import choose_in_place
from lowtide.symbolic import evaluate, render_python
from tests.random_programs import HIGH, make_program, make_reuse
from tests.scenarios import diamond, two_towers


def digest(name: str, tensors: Sequence[torch.Tensor]) -> float:
    """A number that depends on a statement's name and on everything it reads."""
    text = name + "|".join(str(t.tolist()) for t in tensors)
    return float(int(hashlib.sha256(text.encode()).hexdigest()[:6], 16))


def run_kernel(name: str, reads: Sequence[torch.Tensor], targets: Sequence[torch.Tensor], workspace: int) -> None:
    number = digest(name, reads)
    scratch = torch.empty(workspace, dtype=torch.uint8) if workspace else None
    for place, target in enumerate(targets):
        target.fill_(number + place)
    del scratch


def make_tensor(shape: Sequence[int]) -> torch.Tensor:
    return torch.empty(tuple(shape), dtype=torch.float32)


HELPERS: Mapping[str, Any] = {"run_kernel": run_kernel, "make_tensor": make_tensor, "tally": lambda t: int(t.numel())}


def with_code(program: Program) -> Program:
    """The program with every statement calling `run_kernel`, so that it can really run."""
    statements = tuple(replace(s, code=_code(program, s)) for s in program.statements)
    return replace(
        program,
        statements=statements,
        forward_outputs=tuple(_output(o) for o in program.forward_outputs),
        backward_outputs=tuple(_output(o) for o in program.backward_outputs),
    )


def _output(output: Output) -> Output:
    return replace(output, code=output.value or "None")


def _code(program: Program, statement: Statement) -> tuple[str, ...]:
    lines = [f"{name} = 2" for name in statement.defines_dims]
    if statement.op == "view":
        (base,), (view,) = statement.reads, statement.defines
        shape = ", ".join(render_python(e) for e in program.values[view].shape)
        stride = ", ".join(render_python(e) for e in program.values[view].stride)
        return (*lines, f"{view} = reinterpret_tensor({base}, ({shape},), ({stride},), 0)")
    if not statement.allocates:
        for name in statement.defines:
            shape = ", ".join(render_python(e) for e in program.values[name].shape)
            lines.append(f"{name} = make_tensor(({shape},))")
    known = [w.size for w in statement.workspace if w.size is not None]
    workspace = " + ".join(render_python(size) for size in known) or "0"
    targets = ", ".join((*statement.writes, *statement.defines))
    lines.append(f"run_kernel({statement.name!r}, [{', '.join(statement.reads)}], [{targets}], {workspace})")
    return tuple(lines)


def run(program: Program, valuation: Mapping[str, int]) -> tuple[list[Any], int]:
    """Everything the program returns, and the measured peak of running it with outputs held."""
    emitted = emit_program(program)
    functions = load_functions(emitted.source, HELPERS, program.name)
    arguments = [_argument(program, name, valuation) for name in program.inputs]
    results: list[Any] = []

    def step() -> list[Any]:
        outputs, tensors, dims = functions["forward"](list(arguments))
        gradients: list[Any] = []
        if "backward" in functions:
            # A tangent that nothing reads is gone before the first statement; real programs receive it by one.
            tangents = [
                _argument(program, name, valuation) if _is_read(program, name) else None for name in program.tangents
            ]
            gradients = functions["backward"](tensors, dims, tangents)
        return [*outputs, *gradients]

    before = [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]
    results = [r.clone() if isinstance(r, torch.Tensor) else r for r in step()]
    for argument, content in zip(arguments, before, strict=True):
        if isinstance(argument, torch.Tensor):
            argument.copy_(content)
    return results, measure_peak(step).peak_bytes


def _is_read(program: Program, name: str) -> bool:
    return any(name in (*s.reads, *s.writes) for s in program.statements) or any(
        out.value == name for out in program.backward_outputs
    )


def _argument(program: Program, name: str, valuation: Mapping[str, int]) -> Any:
    if name not in program.values:
        return valuation[name]
    shape = tuple(evaluate(e, valuation) for e in program.values[name].shape)
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)


def random_order(program: Program, rng: Random) -> tuple[int, ...]:
    """A random order that respects the dependences."""
    graph = dependences(program)
    waiting = [len(p) for p in graph.predecessors]
    order: list[int] = []
    for start, stop in ((0, graph.boundary), (graph.boundary, len(waiting))):
        ready = [i for i in range(start, stop) if waiting[i] == 0]
        while ready:
            chosen = ready.pop(rng.randrange(len(ready)))
            order.append(chosen)
            for successor in graph.successors[chosen]:
                waiting[successor] -= 1
                if waiting[successor] == 0 and start <= successor < stop:
                    ready.append(successor)
    return tuple(order)


def test_runs_statements_and_returns_outputs() -> None:
    program = with_code(diamond())
    (result,), _ = run(program, {"batch": 3})
    a = torch.empty(3, 256)
    run_kernel("f", [torch.arange(3 * 256, dtype=torch.float32).reshape(3, 256)], [a], 0)
    b, c, d = torch.empty(3, 512), torch.empty(3, 256), torch.empty(3, 256)
    run_kernel("g", [a], [b], 0)
    run_kernel("h", [a], [c], 0)
    run_kernel("k", [b, c], [d], 0)
    assert torch.equal(result, d)


@pytest.mark.parametrize(("program", "sizes", "peak_bytes"), [
    (diamond(), {"batch": 5}, 4096 * 5),
    (two_towers(), {"batch": 2, "seq": 2000}, 4160 * 2 + 4 * 2 * 2000),
])  # fmt: skip
def test_takes_the_bytes_worked_out_by_hand(program: Program, sizes: Mapping[str, int], peak_bytes: int) -> None:
    _, measured = run(with_code(program), sizes)
    assert measured == peak_bytes


def test_a_taken_over_buffer_is_not_allocated_again() -> None:
    program = diamond()
    planned = apply_plan(program, Plan((0, 1, 2, 3), choose_in_place(program)))
    (plain,), _ = run(with_code(program), {"batch": 4})
    (reused,), measured = run(with_code(planned), {"batch": 4})
    assert torch.equal(plain, reused)
    # c lives in a's storage: a and b are all that exists besides d, which takes over c's.
    assert measured == (1024 + 2048) * 4


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.randoms(use_true_random=False), st.integers(1, HIGH), st.integers(1, HIGH))
def test_random_programs_take_exactly_the_predicted_bytes(rng: Random, b: int, s: int) -> None:
    program = make_program(rng, 7)
    valuation = {"b": b, "s": s, "kept": 2}
    expected, _ = run(with_code(program), valuation)
    plan = Plan(random_order(program, rng), make_reuse(rng, program))
    if not isinstance(check_plan(program, plan), Accepted):
        plan = Plan(random_order(program, rng))
    planned = apply_plan(program, plan)
    results, measured = run(with_code(planned), valuation)
    for ours, theirs in zip(results, expected, strict=True):
        assert torch.equal(ours, theirs)
    assert measured == int(memory_profile(planned).at(valuation).max())


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.randoms(use_true_random=False))
def test_chosen_takeovers_are_accepted_by_the_independent_checker(rng: Random) -> None:
    program = make_program(rng, 9)
    plan = Plan(tuple(range(len(program.statements))), choose_in_place(program))
    assert isinstance(check_plan(program, plan), Accepted)
    before, after = memory_profile(program), memory_profile(apply_plan(program, plan))
    for b in (1, HIGH):
        valuation = {"b": b, "s": 2, "kept": 1}
        assert (after.at(valuation) <= before.at(valuation)).all()


def test_backward_leaves_saved_storage_alone_when_it_may_run_again() -> None:
    program = (
        ProgramBuilder("saved")
        .dim("n")
        .input("x", ["n"])
        .tangent("t", ["n"])
        .statement("f", reads=["x"], defines={"a": ["n"]})
        .backward()
        .statement("g", reads=["a", "t"], defines={"d": ["n"]}, may_reuse=[("d", "a")])
        .statement("h", reads=["d"], defines={"e": ["n"]}, may_reuse=[("e", "d")])
        .backward_output("e")
        .build()
    )
    assert choose_in_place(program, across_boundary=True) == {"d": "a", "e": "a"}
    assert choose_in_place(program, across_boundary=False) == {"e": "d"}


def test_a_smaller_value_does_not_take_over_a_larger_storage() -> None:
    program = (
        ProgramBuilder("bias")
        .dim("n", 2, 64)
        .input("x", ["n", 4])
        .statement("f", reads=["x"], defines={"a": ["n", 4]})
        .statement("sum", reads=["a"], defines={"b": [1, 4]}, may_reuse=[("b", "a")])
        .forward_output("b")
        .build()
    )
    assert choose_in_place(program) == {}


def test_sizes_are_read_from_arguments_and_derived_from_others() -> None:
    program = (
        ProgramBuilder("sizes")
        .dim("n")
        .dim("half", 0)
        .bind("half", "n // 2")
        .input("x", ["n", 3])
        .statement("f", reads=["x"], defines={"y": ["half"]})
        .forward_output("y")
        .build()
    )
    functions = load_functions(emit_sizes(program), {}, "sizes")
    assert functions["sizes"]([torch.empty(7, 3)]) == {"n": 7, "half": 3}
    assert functions["derive"]({"n": 9}) == {"n": 9, "half": 4}
    assert functions["derive"]({"n": 9, "half": 1}) == {"n": 9, "half": 1}


def test_padded_storage_is_allocated_whole() -> None:
    builder = ProgramBuilder("padded").dim("n").input("x", ["n", 3]).buffer("p", "64*n")
    program = builder.place("y", "p", ["n", 3]).statement("f", reads=["x"], places=["y"]).forward_output("y").build()
    assert program.buffers["p"].kind is BufferKind.INTERMEDIATE
    (result,), measured = run(with_code(program), {"n": 4})
    assert result.shape == (4, 3)
    assert measured == 64 * 4
