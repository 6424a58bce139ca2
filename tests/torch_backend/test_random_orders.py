"""Whatever legal order runs, with the storage reuse that goes with it, every bit of the results is the same."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchmarks.models import CONV_NET, LLAMA, loss_of
from lowtide.ir import Program
from lowtide.schedule import plan_order, scalar_tangents
from lowtide.schedule.plans import KeptPlans
from lowtide.schedule.problem import Order, order_problem
from tests.torch_backend.pairs import compile_lowtide

SEEDS = range(4)


def random_order(program: Program, rng: Random) -> Order:
    """A random legal order: any statement whose predecessors have run may be next, forward before backward."""
    problem = order_problem(program, tangents_held=scalar_tangents(program))
    waits = [len(before) for before in problem.predecessors]
    order: list[int] = []
    for phase in (range(problem.boundary), range(problem.boundary, len(waits))):
        ready = [number for number in phase if not waits[number]]
        while ready:
            number = ready.pop(rng.randrange(len(ready)))
            order.append(number)
            for after in problem.successors[number]:
                waits[after] -= 1
                if not waits[after] and after in phase:
                    ready.append(after)
    return tuple(order)


def planner(rng: Random | None) -> Callable[[Program], KeptPlans]:
    """Plans one random order; program order where there is no generator."""

    def plan(program: Program) -> KeptPlans:
        order = tuple(range(len(program.statements))) if rng is None else random_order(program, rng)
        return KeptPlans((plan_order(program, order),), ())

    return plan


def gradients(model: nn.Module, inputs: dict[str, Any]) -> list[Tensor]:
    torch._dynamo.reset()
    call = compile_lowtide(model, options={"fallback": False})
    loss = loss_of(call, inputs)
    loss.backward()
    found = [loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]
    model.zero_grad()
    return found


@pytest.mark.parametrize("case", [LLAMA, CONV_NET], ids=lambda case: case.name)
def test_every_legal_order_gives_the_same_bits(case, monkeypatch) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # with more, the embedding's gradient adds up atomically
    try:
        model, inputs = case.make_model(), case.make(3, 31)
        monkeypatch.setattr("lowtide.torch_backend.make_plans", planner(None))
        expected = gradients(model, inputs)
        orders = set()
        for seed in SEEDS:
            rng = Random(seed)
            monkeypatch.setattr("lowtide.torch_backend.make_plans", lambda p, rng=rng: note(planner(rng)(p), orders))
            found = gradients(model, inputs)
            assert len(found) == len(expected)
            assert all(map(torch.equal, found, expected))
        assert len(orders) == len(SEEDS)
    finally:
        torch.set_num_threads(threads)


def note(kept: KeptPlans, orders: set[Order]) -> KeptPlans:
    orders.add(kept.plans[0].order)
    return kept
