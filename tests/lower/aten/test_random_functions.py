"""Random small functions: the values of eager, and a peak predicted to the byte, at sizes not seen at compile time.

Hypothesis draws the lines of a function over tensors t0, t1 (its arguments), t2, ...: elementwise operators, matrix
products, views, reductions, concatenations, and changes in place. Numbers stand in the text, so that dynamo takes them
for constants.
"""

from collections.abc import Callable
from typing import Any

import torch
from aten_meter import Recorder, measured_peak, tensors, unknown_workspaces
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

Tensor = torch.Tensor

LINES = (
    # elementwise
    *("{a}.exp()", "{a}.tanh()", "-{a}", "{a}.relu()", "{a} * 2", "1 - {a}", "{a} / 3", "{a} ** 2", "{a} + 0.5"),
    *("({a} > 0).to({a}.dtype)", "{a}.sigmoid()", "{a}.clone()", "{a}.clamp(-1, 1)", "({a} * 3).int() * {a}"),
    *("same({a}, {b}) + {b}", "same({a}, {b}) * {b}", "torch.where({b} > 0, {b}, same({a}, {b}))"),
    # products
    *("{a} @ {a}.t()", "{a}.t() @ {a}", "torch.addmm({a}, {a}, {a}.t() @ {a})"),
    # views
    *("{a}.t()", "{a}[1:]", "{a}[:, ::2]", "{a}[:1].expand(3, {a}.shape[1])", "{a}.unsqueeze(0)[0]"),
    *("{a}.reshape(1, -1)", "{a}.view(*{a}.shape)[:, 1:]"),
    # reductions
    *("{a}.sum(0, keepdim=True)", "{a}.mean(1, keepdim=True)", "{a}.amax(0, keepdim=True)", "{a}.softmax(1)"),
    *("{a}.sum().view(1, 1)", "{a}.cumsum(0)", "{a}.var(0, keepdim=True, correction=0)", "{a}.argmax(1, True) * 1.5"),
    # concatenations
    *("torch.cat([{a}, {a}])", "torch.cat([{a}, {a}[:, :1]], 1)", "torch.cat([{a}, same({a}, {a})], 1)"),
    # changes in place, of tensors that the function made
    *("({a} * 1).add_(1)", "changed_row({a})", "({a} + 1).t().copy_({a}.t()).t()", "{a}.clone().mul_({a})"),
)
# Shapes differ between any two tensors: `same` gives one of the shape of the other.
PRELUDE = """
def same(a, b):
    return a if a.shape == b.shape else a.mean() * torch.ones_like(b)

def changed_row(a):
    own = a.clone()
    own[0].mul_(2)
    return own
"""
OPERAND = st.integers(0, 30)
STEP = st.tuples(st.sampled_from(LINES), OPERAND, OPERAND)
QUICK = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


def _source(steps: list[tuple[str, int, int]], kept: int, *, changes_argument: bool = False) -> str:
    lines = [PRELUDE, "def function(t0, t1):"]
    for number, (line, a, b) in enumerate(steps, start=2):
        # Later tensors are likelier operands, so that lines build on each other.
        text = line.format(a=f"t{number - 1 - a % number}", b=f"t{number - 1 - b % number}")
        lines.append(f"    t{number} = {text}")
    if changes_argument:
        lines.append("    t0.mul_(0.5)")
    last = len(steps) + 1
    lines.append(f"    return [{', '.join(f't{last - i}' for i in range(kept))}]")
    return "\n".join(lines)


def _function(source: str) -> Callable[..., list[Tensor]]:
    namespace: dict[str, Any] = {"torch": torch}
    exec(source, namespace)
    return namespace["function"]


def _inputs(rows: int, columns: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(rows * 100 + columns)
    return torch.rand(rows, columns, generator=generator), torch.rand(rows, columns, generator=generator)


@settings(QUICK, max_examples=10)
@given(steps=st.lists(STEP, min_size=3, max_size=8), kept=st.integers(1, 3), changes_argument=st.booleans())
def test_random_functions_compute_what_eager_computes_within_the_predicted_peak(
    steps: list[tuple[str, int, int]], kept: int, changes_argument: bool
):
    torch._dynamo.reset()
    source = _source(steps, kept, changes_argument=changes_argument)
    function, recorder = _function(source), Recorder()
    compiled = torch.compile(function, backend=recorder, dynamic=True)
    for rows, columns in ((5, 7), (11, 6), (8, 23)):
        ours, eager, again = (_inputs(rows, columns) for _ in range(3))
        with torch.no_grad():
            found, expected = compiled(*ours), function(*eager)
            measured = measured_peak(lambda again=again: compiled(*again))
        torch.testing.assert_close(tensors(found), tensors(expected), rtol=1e-3, atol=1e-3, equal_nan=True)
        torch.testing.assert_close(ours, eager, equal_nan=True)
        if len(recorder.programs) == 1 and not unknown_workspaces(recorder.program):
            assert recorder.predicted_peak() == measured, f"at {rows} x {columns}:\n{source}"


@settings(QUICK, max_examples=8)
@given(steps=st.lists(STEP, min_size=3, max_size=7))
def test_gradients_of_random_functions_are_those_of_eager(steps: list[tuple[str, int, int]]):
    torch._dynamo.reset()
    function, recorder = _function(_source(steps, 1)), Recorder()
    compiled = torch.compile(function, backend=recorder, dynamic=True)
    for rows, columns in ((5, 7), (11, 6)):
        results: list[list[Tensor]] = []
        for run in (compiled, function):
            leaves = [leaf.requires_grad_() for leaf in _inputs(rows, columns)]
            loss = run(*leaves)[0].square().mean()
            gradients = torch.autograd.grad(loss, leaves, allow_unused=True) if loss.requires_grad else ()
            results.append([loss.detach(), *(g for g in gradients if g is not None)])
        torch.testing.assert_close(*results, rtol=1e-3, atol=1e-3, equal_nan=True)
