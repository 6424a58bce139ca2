"""Measure what an operator takes beyond its outputs, and predict the same from the call's own arguments."""

import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from lowtide.lower.workspace import Argument, Call, CpuMachine, find_workspace
from lowtide.symbolic import const, evaluate


@dataclass(frozen=True)
class Case:
    """One direct call of an operator: `operator(*args, **kwargs)`, or `run` in its place."""

    operator: torch._ops.OpOverload
    args: tuple[object, ...]
    kwargs: dict[str, object]
    threads: int = 1

    def run(self) -> object:
        return self.operator(*self.args, **self.kwargs)

    def __str__(self) -> str:
        shown = [f"{tuple(a.shape)}/{a.stride()}/{a.dtype}" if isinstance(a, torch.Tensor) else a for a in self.args]
        return f"{self.operator}{tuple(shown)} {list(self.kwargs)} threads={self.threads}"


def case(operator: torch._ops.OpOverload, *args: object, threads: int = 1, **kwargs: object) -> Case:
    return Case(operator, args, kwargs, threads)


def measure_workspaces(cases: Sequence[Case]) -> list[int]:
    """Bytes above live-before plus outputs, for each call, all under one profile."""
    before = torch.get_num_threads()
    kept: list[object] = []
    try:
        gc.collect()
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as prof:
            for index, item in enumerate(cases):
                torch.set_num_threads(item.threads)
                with record_function(f"case {index}"):
                    kept.append(item.run())
    finally:
        torch.set_num_threads(before)
    spans: dict[int, tuple[int, int]] = {}
    events: list[tuple[int, int]] = []
    for event in prof.profiler.kineto_results.events():
        name = event.name()
        if name == "[memory]":
            events.append((event.start_ns(), event.nbytes()))
        elif name.startswith("case "):
            spans[int(name.removeprefix("case "))] = (event.start_ns(), event.start_ns() + event.duration_ns())
    events.sort()
    found: list[int] = []
    for index, (item, result) in enumerate(zip(cases, kept, strict=True)):
        start, stop = spans[index]
        live = peak = 0
        for at, size in events:
            if start <= at < stop:
                live += size
                peak = max(peak, live)
        found.append(peak - _fresh_bytes(item, result))
    return found


def predict_workspace(item: Case) -> int | None:
    """The formula's bytes for a call, or None when it says that they are not known."""
    machine = CpuMachine()
    parts = find_workspace(_call(item), machine)
    total = 0
    for part in parts:
        if part.size is None:
            return None
        total += evaluate(part.size, {"threads": item.threads})
    return total


def assert_predicted_is_measured(cases: Sequence[Case]) -> None:
    measured = measure_workspaces(cases)
    wrong = [
        f"{item}: measured {found}, predicted {predict_workspace(item)}"
        for item, found in zip(cases, measured, strict=True)
        if found != predict_workspace(item)
    ]
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong[:20])


def _call(item: Case) -> Call:
    named: dict[str, Argument] = {}
    for parameter, value in zip(item.operator._schema.arguments, item.args, strict=False):
        named[parameter.name] = argument_of(value)
    for name, value in item.kwargs.items():
        named[name] = argument_of(value)
    return Call(str(item.operator), named)


def argument_of(value: object) -> Argument:
    """The argument that the formulas see for a value at hand."""
    if isinstance(value, torch.Tensor):
        return Argument(
            shape=tuple(const(n) for n in value.shape),
            stride=tuple(const(n) for n in value.stride()),
            dtype=str(value.dtype).removeprefix("torch."),
        )
    if isinstance(value, (list, tuple)):
        return Argument(value=tuple(argument_of(v) if isinstance(v, torch.Tensor) else v for v in value))
    return Argument(value=value)


def _tensors(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors(part)


def _fresh_bytes(item: Case, result: object) -> int:
    given = {t.untyped_storage().data_ptr() for t in _tensors([*item.args, *item.kwargs.values()])}
    fresh = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in _tensors(result)}
    return sum(size for pointer, size in fresh.items() if pointer not in given)
