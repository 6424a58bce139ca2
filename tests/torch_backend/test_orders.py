"""A program with several orders: the one that runs depends on the sizes, what it computes does not."""

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import lowtide
from lowtide.capture import find_backend
from lowtide.runtime.registry import compiled_programs

ATEN = {"lowering": "aten"}


class HalfAndWhole(nn.Module):
    """One branch over half of the rows, one over all of them and eight more: the better order depends on the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(16, 64, bias=False), nn.Linear(64, 16, bias=False)
        self.first, self.second = nn.Linear(16, 16, bias=False), nn.Linear(16, 16, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        half = x.shape[0] // 2
        left = self.narrow(self.wide(x[:half]))
        right = self.second(self.first(torch.cat([x, x[:8]]))[:half])
        return (left * right).sum()


def compiled(**options: object) -> tuple[Any, HalfAndWhole]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = HalfAndWhole()
    return torch.compile(model, backend="lowtide", dynamic=True, options={**ATEN, **options}), model


def executable_of(model: nn.Module):
    return compiled_programs.programs_of(find_backend(model))[-1]


def test_inference_runs_another_order_at_another_size_and_computes_the_same() -> None:
    model, plain = compiled()
    chosen = set()
    with torch.no_grad():
        for rows in (9, 20, 33, 34, 64, 200):
            x = torch.randn(rows, 16)
            torch.testing.assert_close(model(x), plain(x))
            measured = lowtide.measure_peak(lambda x=x: model(x)).peak_bytes
            executable = executable_of(model)
            sizes = executable._sizes([*_arguments(executable, x, plain)])
            program = executable.program_at({**sizes, "threads": torch.get_num_threads()})
            chosen.add(executable.variants.index(next(v for v in executable.variants if v.program is program)))
            half = rows // 2
            best = min(max(5 * half, half + 2 * (rows + 8)), max(2 * (rows + 8), 6 * half))
            assert measured <= 64 * best + 4
    assert len(executable_of(model).variants) > 1
    assert len(chosen) > 1


def _arguments(executable, x: Tensor, plain: HalfAndWhole) -> list[object]:
    """What the program is called with: integers and tensors in the order of its inputs."""
    tensors = {tuple(p.shape): p for p in plain.parameters()}
    found: list[object] = []
    for name in executable.program.inputs:
        value = executable.program.values.get(name)
        if value is None:
            found.append(x.shape[0])
        elif any(e.dims for e in value.shape):
            found.append(x)
        else:
            found.append(tensors[tuple(e.constant_value for e in value.shape)])
    return found


@pytest.mark.parametrize("retain", [False, True])
def test_training_in_every_order_has_the_gradients_of_eager(retain: bool) -> None:
    model, plain = compiled()
    reference = HalfAndWhole()
    reference.load_state_dict(plain.state_dict())
    for rows in (9, 20, 33, 34, 64):
        x = torch.randn(rows, 16)
        plain.zero_grad()
        reference.zero_grad()
        loss, expected = model(x), reference(x)
        for _ in range(2 if retain else 1):
            loss.backward(retain_graph=retain)
            expected.backward(retain_graph=retain)
        for ours, theirs in zip(plain.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-4)


def test_a_step_is_predicted_at_sizes_at_which_another_order_runs() -> None:
    model, plain = compiled()

    def step(rows: int):
        plain.zero_grad(set_to_none=True)
        x = torch.randn(rows, 16)
        return lambda: model(x).backward()

    step(9)()
    with lowtide.record_step() as recorded:
        step(9)()
    for rows in (20, 33, 64, 200):
        assert recorded.predict({"batch": rows}).bytes == lowtide.measure_peak(step(rows)).peak_bytes


def test_a_kept_graph_is_predicted_with_what_it_keeps() -> None:
    model, plain = compiled()

    def step(rows: int, *, retain: bool):
        plain.zero_grad(set_to_none=True)
        x = torch.randn(rows, 16)

        def run() -> None:
            loss = model(x)
            loss.backward(retain_graph=retain)

        return run

    step(9, retain=True)()
    with lowtide.record_step() as recorded:
        step(9, retain=True)()
    for rows in (20, 64):
        measured = lowtide.measure_peak(step(rows, retain=True)).peak_bytes
        assert recorded.predict({"batch": rows}).bytes == measured


def test_sizes_outside_of_the_scope_and_unknown_names_are_refused() -> None:
    model, _ = compiled()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(torch.randn(20, 16)).backward()
    (program,) = lowtide.explain(model).programs
    with pytest.raises(lowtide.LowtideError, match="batch = 1"):
        program.peak_at(batch=1)
    with pytest.raises(lowtide.LowtideError, match="does not have"):
        program.peak_at(batch=20, threds=2)
