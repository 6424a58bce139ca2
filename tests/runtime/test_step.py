"""A recorded step predicts the measured peak of the same step at other sizes, over several programs."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import lowtide
from lowtide import measure_peak
from lowtide.runtime.step import CallKind, MissingSizeError, SizeError, Step, check_sizes
from tests.scenarios import diamond

ATEN = {"lowering": "aten"}


def two_parts(*, keep: bool) -> tuple[Callable[[Tensor], Any], list[nn.Parameter]]:
    """Two separately compiled parts, with nothing but Python between them."""
    torch.manual_seed(0)
    first, second = nn.Linear(16, 64, bias=False), nn.Linear(64, 8, bias=False)

    def head(x: Tensor) -> Tensor:
        return first(x).relu()

    def tail(h: Tensor) -> Tensor:
        return second(h * 2.0).square().mean()

    one = torch.compile(head, backend="lowtide", dynamic=True, options=ATEN)
    two = torch.compile(tail, backend="lowtide", dynamic=True, options=ATEN)

    def step(x: Tensor) -> Any:
        hidden = one(x)
        loss = two(hidden)
        loss.backward()
        return (hidden, loss) if keep else loss

    return step, [first.weight, second.weight]


def run_fresh(step: Callable[[Tensor], Any], parameters: list[nn.Parameter], rows: int) -> Callable[[], Any]:
    x = torch.randn(rows, 16)
    for parameter in parameters:
        parameter.grad = None
    return lambda: step(x)


def record(step: Callable[[Tensor], Any], parameters: list[nn.Parameter], rows: int) -> Step:
    run_fresh(step, parameters, rows)()
    with lowtide.record_step() as recorded:
        kept = run_fresh(step, parameters, rows)()
    del kept
    return recorded


@pytest.mark.parametrize("keep", [True, False])
def test_predicts_two_programs_at_sizes_not_recorded(keep: bool) -> None:
    torch._dynamo.reset()
    step, parameters = two_parts(keep=keep)
    recorded = record(step, parameters, 5)
    assert [call.kind for call in recorded.calls] == [
        CallKind.FORWARD, CallKind.FORWARD, CallKind.BACKWARD, CallKind.BACKWARD,
    ]  # fmt: skip
    for rows in (2, 7, 64, 1001):
        measured = measure_peak(run_fresh(step, parameters, rows)).peak_bytes
        assert recorded.predict({"batch": rows}).bytes == measured


def test_sizes_of_a_later_program_come_from_the_earlier_one() -> None:
    torch._dynamo.reset()
    step, parameters = two_parts(keep=True)
    recorded = record(step, parameters, 5)
    valuations = recorded.valuations({"batch": 9})
    assert 9 in valuations[1].values()


def test_recorded_sizes_are_used_when_none_are_given() -> None:
    torch._dynamo.reset()
    step, parameters = two_parts(keep=True)
    recorded = record(step, parameters, 6)
    assert recorded.predict().bytes == recorded.predict({"batch": 6}).bytes
    assert max(recorded.timeline()) == recorded.predict().bytes


def test_names_the_size_that_is_missing() -> None:
    torch._dynamo.reset()
    step, parameters = two_parts(keep=True)
    recorded = record(step, parameters, 6)
    with pytest.raises(MissingSizeError, match="no size for batch"):
        recorded.predict({})


def test_inference_is_recorded_and_predicted() -> None:
    torch._dynamo.reset()
    layer = nn.Linear(16, 64)
    compiled = torch.compile(layer, backend="lowtide", dynamic=True, options=ATEN)

    def run(rows: int) -> Callable[[], Tensor]:
        x = torch.randn(rows, 16)

        def call() -> Tensor:
            with torch.no_grad():
                return compiled(x)

        return call

    run(3)()
    with lowtide.record_step() as recorded:
        run(3)()
    assert [call.kind for call in recorded.calls] == [CallKind.INFERENCE]
    for rows in (2, 19):
        assert recorded.predict({"batch": rows}).bytes == measure_peak(run(rows)).peak_bytes


def test_nothing_is_recorded_outside_the_block() -> None:
    torch._dynamo.reset()
    step, parameters = two_parts(keep=False)
    with lowtide.record_step() as recorded:
        pass
    run_fresh(step, parameters, 4)()
    assert recorded.calls == []
    assert recorded.predict().bytes == 0


def test_a_number_that_does_not_follow_from_the_sizes_is_asked_for() -> None:
    program = diamond()
    check_sizes(program, {"batch": 4})
    with pytest.raises(MissingSizeError, match="nothing for batch"):
        check_sizes(program, {})
    with pytest.raises(SizeError, match="batch = 0"):
        check_sizes(program, {"batch": 0})
