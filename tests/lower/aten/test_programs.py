"""Programs of aten calls: the values of eager, the bits of torch's own aten backend, and a peak that is predicted."""

import copy
import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from aten_meter import Recorder, measured_peak, tensors, unknown_workspaces
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import lowtide
from lowtide.ir import Program, parse_program, render_program

Inputs = tuple[Any, ...]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.project, self.out = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        heads = self.project(self.norm(x)).view(batch, length, 3, 4, 8).permute(2, 0, 3, 1, 4)
        scores = (heads[0] @ heads[1].transpose(-1, -2)) * 8**-0.5
        scores = scores.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), float("-inf"))
        mixed = scores.softmax(-1) @ heads[2]
        return (x + self.out(mixed.transpose(1, 2).reshape(batch, length, 32))).square().mean()


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = functional.max_pool2d(functional.relu(self.norm(self.conv(images))), 2)
        return self.head(x.mean((2, 3))).logsumexp(-1).mean()


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(50, 16), nn.Linear(16, 50)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self.head(torch.tanh(self.embedding(ids))).flatten(0, 1), ids.flatten())


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.register_buffer("calls", torch.zeros(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        y = self.linear(x)
        y.mul_(2)
        y[:, 0].add_(3)
        y[1:, 2:4] = 0.5
        return y.sigmoid_().sum() + self.calls.sum()


def _mlp() -> nn.Module:
    class Mlp(nn.Sequential):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x).square().mean()

    return Mlp(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))


class Recomputed(nn.Module):
    """Dropout in a part that backward computes again, from the same random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.part, x, use_reentrant=False).square().mean()


def _dropout() -> nn.Module:
    class Dropping(nn.Sequential):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x).sum()

    return Dropping(nn.Linear(8, 16), nn.Dropout(0.3), nn.ReLU(), nn.Linear(16, 4))


@dataclass(frozen=True)
class Model:
    make: Callable[[], nn.Module]
    inputs: Callable[..., Inputs]
    shapes: tuple[tuple[int, ...], ...]
    same_as_eager: bool = True
    peak_is_known: bool = True


MODELS = {
    "mlp": Model(_mlp, lambda b: (torch.randn(b, 8),), ((5,), (2,), (7,), (64,))),
    "attention": Model(Attention, lambda b, s: (torch.randn(b, s, 32),), ((2, 5), (3, 4), (5, 17), (2, 61))),
    "convolutions": Model(
        Convolutions, lambda b, h: (torch.randn(b, 3, h, h),), ((2, 8), (5, 10), (7, 12)), peak_is_known=False
    ),
    "tokens": Model(Tokens, lambda b, s: (torch.randint(50, (b, s)),), ((2, 5), (3, 7), (4, 20))),
    "dropout": Model(_dropout, lambda b: (torch.randn(b, 8),), ((5,), (3,), (40,)), same_as_eager=False),
    "recomputed": Model(
        Recomputed, lambda b: (torch.randn(b, 8),), ((5,), (3,)), same_as_eager=False, peak_is_known=False
    ),
    "in place": Model(InPlace, lambda b: (torch.randn(b, 6),), ((5,), (3,), (40,))),
}


@dataclass(frozen=True)
class Outcome:
    """What one compilation of a model gave at all of its shapes, each list in the order of the shapes."""

    recorder: Recorder
    found: list[list[torch.Tensor]]
    torchs: list[list[torch.Tensor]]
    expected: list[list[torch.Tensor]]
    predicted: list[int]
    measured: list[int]


@functools.cache
def _outcome(name: str) -> Outcome:
    model = MODELS[name]
    torch.manual_seed(0)
    eager = model.make()
    module = copy.deepcopy(eager)
    outcome = Outcome(Recorder(), [], [], [], [], [])
    ours = torch.compile(module, backend=outcome.recorder, dynamic=True)
    theirs = torch.compile(copy.deepcopy(eager), backend="aot_eager_decomp_partition", dynamic=True)
    for shape in model.shapes:
        inputs = model.inputs(*shape)
        outcome.found.append(_step(ours, inputs))
        outcome.torchs.append(_step(theirs, inputs))
        outcome.expected.append(_step(eager, inputs))
        module.zero_grad()
        outcome.measured.append(measured_peak(functools.partial(_run, ours, inputs)))
        outcome.predicted.append(outcome.recorder.predicted_peak())
        for other in (theirs, eager):
            _run(other, inputs)  # a step for each step that was measured: buffers stay in step
    return outcome


def _run(module: Any, inputs: Inputs) -> torch.Tensor:
    loss = module(*inputs)
    loss.backward()
    return loss


def _step(module: Any, inputs: Inputs) -> list[torch.Tensor]:
    """Loss, gradients and buffers after one step from the same seed."""
    torch.manual_seed(1)
    module.zero_grad()
    loss = _run(module, inputs)
    gradients = [p.grad for p in module.parameters()]
    return [loss.detach(), *[g.clone() for g in gradients if g is not None], *[b.clone() for b in module.buffers()]]


def _equal(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    return len(left) == len(right) and all(map(torch.equal, left, right))


@pytest.mark.parametrize("name", MODELS)
def test_a_training_step_has_the_bits_of_torchs_own_aten_backend(name: str):
    outcome = _outcome(name)
    for shape, found, torchs in zip(MODELS[name].shapes, outcome.found, outcome.torchs, strict=True):
        assert _equal(found, torchs), f"bits differ at {shape}"
    assert len(outcome.recorder.programs) == 1


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if model.same_as_eager])
def test_a_training_step_has_the_values_of_eager(name: str):
    outcome = _outcome(name)
    for found, expected in zip(outcome.found, outcome.expected, strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if model.peak_is_known])
def test_the_peak_of_a_training_step_is_predicted_to_the_byte(name: str):
    outcome = _outcome(name)
    assert outcome.predicted == outcome.measured
    assert not unknown_workspaces(outcome.recorder.program)


@pytest.mark.parametrize("name", MODELS)
def test_the_program_does_not_depend_on_the_first_shape(name: str):
    model, first = MODELS[name], _outcome(name).recorder.program
    recorder = Recorder()
    torch._dynamo.reset()
    torch.compile(model.make(), backend=recorder, dynamic=True)(*model.inputs(*model.shapes[1]))
    assert render_program(_unnamed(recorder.program)) == render_program(_unnamed(first))


@pytest.mark.parametrize("name", MODELS)
def test_the_text_of_a_program_parses_back(name: str):
    program = _outcome(name).recorder.program
    assert parse_program(render_program(program)) == program


def _unnamed(program: Program) -> Program:
    """The program without its title, which counts compilations."""
    return dataclasses.replace(program, name="program")


# -- inference -----------------------------------------------------------------------------------------------


def _views(x: torch.Tensor) -> Any:
    y = x.exp()
    return y.t(), y[1:, ::2], x.view(-1)[3:], y.expand(2, *y.shape), x


def _parts(x: torch.Tensor) -> Any:
    first, rest = x.split([1, x.shape[0] - 1])
    var, mean = torch.var_mean(x, 0)
    values, indices = x.sort(1)
    return first + 1, rest.sum(), var, values.cumsum(0), indices[:, 0], torch.cat([first, mean[None]])


def _mutates(x: torch.Tensor) -> Any:
    x.mul_(2)
    x[0] = 7
    return x.sum(), x


def _factories(x: torch.Tensor) -> Any:
    n = x.shape[0]
    return torch.arange(n), torch.full((n, 2), n), torch.zeros(n) + x.shape[1] / n, x * (n // 2 + 0.5), n * 3


def _picks(x: torch.Tensor) -> Any:
    places = x.nonzero()
    return places, x[x > 0] * 2, places.sum()


def _reads_a_number(x: torch.Tensor, n: torch.Tensor) -> Any:
    k = n.item()
    torch._check(k >= 1)
    torch._check(k <= 8)
    return torch.zeros(k, 4) + x[0, :4], x * k


def _inference_cases() -> dict[str, tuple[Callable[..., Any], Callable[[int], Inputs]]]:
    return {
        "views": (_views, lambda n: (torch.randn(n, 6),)),
        "parts": (_parts, lambda n: (torch.randn(n, 6),)),
        "mutates": (_mutates, lambda n: (torch.randn(n, 6),)),
        "factories": (_factories, lambda n: (torch.randn(n, 6),)),
        "picks": (_picks, lambda n: (torch.randn(n, 6),)),
        "reads a number": (_reads_a_number, lambda n: (torch.randn(n, 6), torch.tensor(n))),
    }


@pytest.mark.parametrize("name", _inference_cases())
def test_inference_has_the_values_of_eager_and_the_bits_of_torch(name: str):
    function, make = _inference_cases()[name]
    recorder = Recorder()
    ours = torch.compile(function, backend=recorder, dynamic=True)
    theirs = torch.compile(function, backend="aot_eager_decomp_partition", dynamic=True)
    for size in (4, 3, 7):
        inputs = make(size)
        copies = [tuple(x.clone() for x in inputs) for _ in range(3)]
        with torch.no_grad():
            found, torchs, expected = ours(*copies[0]), theirs(*copies[1]), function(*copies[2])
        assert [t.shape for t in tensors(found)] == [t.shape for t in tensors(expected)]
        assert [t.stride() for t in tensors(found)] == [t.stride() for t in tensors(torchs)]
        assert _equal(tensors(found), tensors(torchs))
        assert _equal(list(copies[0]), list(copies[2]))
        torch.testing.assert_close(tensors(found), tensors(expected))
    assert len(recorder.programs) == 1


def test_views_live_in_the_buffer_of_their_base():
    recorder = Recorder()
    with torch.no_grad():
        x = torch.randn(4, 6)
        out = torch.compile(_views, backend=recorder, dynamic=True)(x)
    program = recorder.program
    buffers = [program.values[o.value].buffer for o in program.forward_outputs if o.value is not None]
    assert len({buffers[0], buffers[1], buffers[3]}) == 1
    assert program.buffers[buffers[2]].kind == "input"
    assert out[2].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert out[0].untyped_storage().data_ptr() == out[3].untyped_storage().data_ptr()


def test_inputs_may_be_windows_onto_longer_storage():
    def function(x: torch.Tensor) -> Any:
        return x.t() * 2, x[1:, 1:], x.reshape(-1)

    recorder = Recorder()
    compiled = torch.compile(function, backend=recorder, dynamic=True)
    for start, rows in ((1, 4), (3, 7), (5, 3)):
        x = torch.randn(20, 10)[start : start + rows, 3:9]
        with torch.no_grad():
            found = compiled(x)
            measured = measured_peak(functools.partial(compiled, x))
        torch.testing.assert_close(tensors(found), tensors(function(x)))
        assert found[1].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        assert recorder.predicted_peak() == measured
    assert len(recorder.programs) == 1


def test_a_number_that_arrives_as_a_tensor_is_counted():
    recorder = Recorder()
    compiled = torch.compile(lambda x, factor: (x * factor).sum() + factor, backend=recorder, dynamic=True)
    for rows, factor in ((4, 0.5), (7, 2.5), (3, 1.5)):
        x = torch.randn(rows, 6)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x, factor), (x * factor).sum() + factor)
            measured = measured_peak(functools.partial(compiled, x, factor))
        assert recorder.predicted_peak() == measured
    assert len(recorder.programs) == 1


def test_changed_inputs_are_writes():
    recorder = Recorder()
    with torch.no_grad():
        torch.compile(_mutates, backend=recorder, dynamic=True)(torch.randn(4, 6))
    program = recorder.program
    written = {program.values[w].buffer for s in program.statements for w in s.writes}
    assert {program.buffers[b].kind for b in written} == {"input"}


def test_numbers_of_picked_elements_are_bounded_by_what_was_looked_at():
    recorder = Recorder()
    with torch.no_grad():
        torch.compile(_picks, backend=recorder, dynamic=True)(torch.randn(4, 6))
    program = recorder.program
    assert len(program.run_time_dims) == 2
    assert {str(constraint).split(" <= ")[0] for constraint in program.scope.constraints} == program.run_time_dims


def test_a_peak_at_sizes_known_only_at_run_time_is_predicted_to_the_byte():
    def places(x: torch.Tensor) -> Any:
        found = (x > 0).nonzero()
        return found.float() * 2, found[:, 0]

    recorder = Recorder()
    compiled = torch.compile(places, backend=recorder, dynamic=True)
    for rows in (4, 9, 3):
        x = torch.randn(rows, 6)
        with torch.no_grad():
            compiled(x)
            measured = measured_peak(functools.partial(compiled, x))
        (dim,) = recorder.program.run_time_dims
        assert recorder.predicted_peak({dim: int((x > 0).sum())}) == measured


def test_control_flow_is_refused_with_what_and_where():
    def branches(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    with torch.no_grad(), pytest.raises(Exception, match=r"(?s)cannot account for.*control flow.*test_programs\.py:"):
        torch.compile(branches, backend=Recorder(), dynamic=True)(torch.randn(4, 6))


def test_the_backend_lowers_to_aten_calls_when_asked_to():
    model = MODELS["mlp"].make()
    compiled = torch.compile(model, backend="lowtide", dynamic=True, options={"lowering": "aten"})
    for shape in ((5,), (3,)):
        inputs = MODELS["mlp"].inputs(*shape)
        torch.testing.assert_close(_step(compiled, inputs), _step(model, inputs))
    (explained,) = lowtide.explain(compiled).programs
    assert explained.program.level == "aten"
