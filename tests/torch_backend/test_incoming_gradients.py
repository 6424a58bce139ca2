"""Backward writes over an incoming gradient if nobody else holds it, and never otherwise."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import lowtide
from lowtide.runtime.form import BackwardForm
from tests.torch_backend.pairs import compile_lowtide, compile_torch

ROWS = 40


class Head(nn.Module):
    """Returns a loss and the logits that it is made of, as language models do."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(8, 300)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.body(x)
        return nn.functional.cross_entropy(logits, torch.zeros(x.shape[0], dtype=torch.int64)), logits


class Scale(nn.Module):
    """Its backward multiplies the incoming gradient, and could do so in place."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(1, 2, 64))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight


def pair(make: Callable[[], nn.Module]) -> tuple[nn.Module, Callable, nn.Module, Callable]:
    """The same model twice: for lowtide, and for torch.compile's own backend."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    ours = make()
    torch.manual_seed(0)
    theirs = make()
    return ours, compile_lowtide(ours, options={"fallback": False}), theirs, compile_torch(theirs)


def gradients(model: nn.Module) -> list[Tensor]:
    found = [p.grad for p in model.parameters()]
    model.zero_grad()
    return found


def forms_of(step: lowtide.Step) -> list[BackwardForm]:
    return [call.form for call in step.calls if call.forward is not None]


def test_the_gradient_of_unused_logits_is_written_over() -> None:
    ours, call, theirs, expected = pair(Head)

    def step(compiled: Callable, x: Tensor) -> None:
        outputs = compiled(x)
        outputs[0].backward()

    for rows in (ROWS, 64):
        x = torch.randn(rows, 8)
        step(call, x)
        step(expected, x)
        assert all(map(torch.equal, gradients(ours), gradients(theirs)))
    with lowtide.record_step() as watched:
        step(call, x)
    assert forms_of(watched) == [BackwardForm.PLAIN]
    ours.zero_grad()
    for rows in (33, 64, 500):
        x = torch.randn(rows, 8)
        step(call, x)
        step(expected, x)
        gradients(ours), gradients(theirs)
        measured = lowtide.measure_peak(lambda x=x: step(call, x)).peak_bytes
        reference = lowtide.measure_peak(lambda x=x: step(expected, x)).peak_bytes
        gradients(ours), gradients(theirs)
        assert watched.predict({"batch": rows}).bytes == measured
        assert reference - measured >= rows * 300 * 4 // 2


def test_explain_says_what_it_takes_for_granted() -> None:
    _, call, _, _ = pair(Head)
    call(torch.randn(ROWS, 8))
    assert "nobody else holds the gradients that arrive" in str(lowtide.explain(call))


@pytest.mark.parametrize("rows", [ROWS, 3])
def test_a_gradient_of_the_caller_stays_as_it_is(rows: int) -> None:
    ours, call, theirs, expected = pair(Scale)
    x = torch.randn(rows, 64, requires_grad=True)
    given = torch.randn(rows, 64)
    before = given.clone()
    found = torch.autograd.grad(call(x), (x, ours.weight), given)
    assert torch.equal(given, before)
    assert all(map(torch.equal, found, torch.autograd.grad(expected(x), (x, theirs.weight), given)))


def test_a_gradient_that_goes_to_two_programs_stays_as_it_is_for_the_second() -> None:
    ours, call, theirs, expected = pair(Scale)
    more, more_call, other, more_expected = pair(Scale)
    x = torch.randn(ROWS, 64, requires_grad=True)

    def total(one: Callable, two: Callable) -> Tensor:
        return (one(x) + two(x)).pow(2).sum()

    for _ in range(2):
        total(call, more_call).backward()
        mine, x.grad = x.grad, None
        total(expected, more_expected).backward()
        assert torch.equal(mine, x.grad)
        x.grad = None
        assert all(map(torch.equal, gradients(ours) + gradients(more), gradients(theirs) + gradients(other)))


def test_a_gradient_that_a_hook_keeps_stays_as_it_is() -> None:
    ours, call, theirs, expected = pair(Scale)
    x = torch.randn(ROWS, 64, requires_grad=True)
    kept: list[Tensor] = []

    def run(compiled: Callable) -> None:
        y = compiled(x)
        y.register_hook(kept.append)
        y.sin().sum().backward()

    run(call)
    run(expected)
    assert torch.equal(kept[0], kept[1])
    assert all(map(torch.equal, gradients(ours), gradients(theirs)))


def from_numpy(held: list) -> Callable[[Tensor], Tensor]:
    """A hook that answers with memory of numpy's."""
    held.append(np.ones((ROWS, 64), dtype="float32"))
    return lambda grad: torch.from_numpy(held[0])


def from_shared_memory(held: list) -> Callable[[Tensor], Tensor]:
    """A hook that answers with memory that other processes may map, and a second view of it."""
    memory = torch.ones(ROWS, 64).share_memory_()
    handle = memory.untyped_storage()._share_filename_cpu_()
    held.append(torch.empty(0).set_(torch.UntypedStorage._new_shared_filename_cpu(*handle), 0, (ROWS, 64)))
    answer = [memory]
    return lambda grad: answer.pop()


def keeping_the_storage(held: list) -> Callable[[Tensor], None]:
    """A hook that keeps the storage object and no tensor."""
    return lambda grad: held.append(grad.untyped_storage())


@pytest.mark.parametrize("make_hook", [from_numpy, from_shared_memory, keeping_the_storage])
def test_memory_that_somebody_else_can_see_stays_as_it_is(make_hook: Callable) -> None:
    def contents_after(compiled: Callable) -> Tensor:
        held: list = []
        torch.manual_seed(1)
        y = compiled(torch.randn(ROWS, 64, requires_grad=True))
        y.register_hook(make_hook(held))
        y.sin().sum().backward()
        (seen,) = held
        return (
            torch.empty(0).set_(seen, 0, (ROWS, 64))
            if isinstance(seen, torch.UntypedStorage)
            else torch.as_tensor(seen)
        )

    ours, call, theirs, expected = pair(Scale)
    assert torch.equal(contents_after(call), contents_after(expected))
    assert all(torch.equal(a, b) for a, b in zip(gradients(ours), gradients(theirs), strict=True))


def test_a_retained_gradient_stays_as_it_is() -> None:
    ours, call, theirs, expected = pair(Scale)
    x = torch.randn(ROWS, 64, requires_grad=True)
    retained: list[Tensor] = []
    for compiled in (call, expected):
        y = compiled(x)
        y.retain_grad()
        y.sin().sum().backward()
        retained.append(y.grad)
    assert torch.equal(*retained)
    assert all(map(torch.equal, gradients(ours), gradients(theirs)))


def test_an_expanded_gradient_is_read_as_it_is() -> None:
    ours, call, theirs, expected = pair(Scale)
    x = torch.randn(ROWS, 64, requires_grad=True)
    call(x).sum().backward()
    mine, x.grad = x.grad, None
    expected(x).sum().backward()
    assert torch.equal(mine, x.grad)
    assert all(map(torch.equal, gradients(ours), gradients(theirs)))


def test_a_step_with_a_held_gradient_is_predicted_as_it_runs() -> None:
    model = Scale()
    call = compile_lowtide(model, options={"fallback": False})

    def step(x: Tensor, given: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(call(x), (x, model.weight), given)

    def inputs(rows: int) -> tuple[Tensor, Tensor]:
        return torch.randn(rows, 64, requires_grad=True), torch.randn(rows, 64)

    step(*inputs(ROWS))
    with lowtide.record_step() as watched:
        step(*inputs(ROWS))
    assert forms_of(watched) == [BackwardForm.SPARING]
    for rows in (7, 90):
        x, given = inputs(rows)
        step(x, given)
        # The gradient is the caller's and older than the step: it is in the prediction and not in the measurement.
        measured = lowtide.measure_peak(lambda x=x, given=given: step(x, given)).peak_bytes
        assert watched.predict({"batch": rows}).bytes == measured + given.nbytes
