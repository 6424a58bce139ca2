"""As many compilations as torch.compile makes, graph breaks and recompilations included; state_dict and copies stay."""

import copy
import io
import pickle

import torch
from torch import nn
from torch._dynamo.utils import counters

from lowtide.capture import find_backend
from lowtide.runtime.registry import compiled_programs
from tests.torch_backend.pairs import Mlp, assert_bitwise, compile_lowtide, compile_torch, run_steps, seeded


class Breaking(nn.Module):
    """Two graphs with Python between them."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = Mlp(), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.before(x)
        torch._dynamo.graph_break()
        return self.after(y.relu())


def _count(compiler, make, calls):
    """Graphs and frames compiled, and what the calls gave."""
    torch._dynamo.reset()
    counters.clear()
    model = seeded(make)
    call = compiler(model)
    seen = calls(model, call)
    return counters["stats"]["unique_graphs"], counters["frames"]["ok"], seen


def _same_count(make, calls):
    theirs, ours = (_count(compiler, make, calls) for compiler in (compile_torch, compile_lowtide))
    assert_bitwise(ours[2], theirs[2])
    assert ours[:2] == theirs[:2]
    return ours


def test_varying_sizes_training_and_inference_take_as_many_graphs():
    def calls(model, call):
        seen = [run_steps(model, call, [(torch.ones(n, 8),) for n in (4, 7, 2)])]
        with torch.no_grad():
            seen.append([call(torch.ones(n, 8)) for n in (4, 5)])
        model.eval()
        seen.append(call(torch.ones(3, 8)).detach())
        return seen

    graphs, _, _ = _same_count(Mlp, calls)
    assert graphs <= 3


def test_sizes_zero_and_one_and_new_dtypes_take_as_many_graphs():
    def calls(model, call):
        with torch.no_grad():
            return [call(torch.ones(n, 8)) for n in (4, 1, 0, 6)]

    _same_count(Mlp, calls)


def test_graph_breaks_give_one_program_per_graph():
    def calls(model, call):
        return run_steps(model, call, [(torch.ones(n, 8),) for n in (4, 7)])

    graphs, _, _ = _same_count(Breaking, calls)
    torch._dynamo.reset()
    call = compile_lowtide(seeded(Breaking))
    call(torch.ones(4, 8)).sum().backward()
    assert len(compiled_programs.programs_of(find_backend(call))) == graphs


def test_static_shapes_recompile_as_torch_compile_does():
    counts = []
    for backend in ("inductor", "lowtide"):
        torch._dynamo.reset()
        counters.clear()
        call = torch.compile(seeded(Mlp), backend=backend)
        with torch.no_grad():
            for n in (4, 7, 9, 5):
                call(torch.ones(n, 8))
        counts.append((counters["stats"]["unique_graphs"], counters["frames"]["ok"]))
    assert counts[0] == counts[1]


def test_copies_and_state_dicts_are_those_of_the_module():
    model = seeded(Mlp)
    model.compile(backend="lowtide", dynamic=True)
    x = torch.randn(3, 8)
    model(x).sum().backward()
    stored = io.BytesIO()
    torch.save(model.state_dict(), stored)
    stored.seek(0)
    assert_bitwise(torch.load(stored), model.state_dict())
    assert list(model.state_dict()) == list(seeded(Mlp).state_dict())
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        torch.testing.assert_close(other(x), model(x), rtol=1e-5, atol=1e-5)
        with torch.no_grad():
            other.inner.weight.zero_()
        assert not torch.equal(other(x), model(x))
    wrapped = compile_lowtide(seeded(Mlp))
    wrapped(x).sum().backward()
    assert_bitwise(copy.deepcopy(wrapped).state_dict(), wrapped.state_dict())


def test_a_function_and_a_method_can_be_compiled():
    def f(x):
        return x.sin() + 1

    call = compile_lowtide(f)
    x = torch.randn(3, requires_grad=True)
    call(x).sum().backward()
    torch.testing.assert_close(x.grad, x.detach().cos())
    assert len(compiled_programs.programs_of(find_backend(call))) == 1


def test_another_model_of_the_same_class_shares_the_programs():
    first = compile_lowtide(seeded(Mlp))
    second = compile_lowtide(seeded(Mlp, seed=1))
    x = torch.randn(3, 8)
    first(x), second(x)
    programs = compiled_programs.programs_of(find_backend(first))
    assert len(programs) == 1
    assert compiled_programs.programs_of(find_backend(second)) == programs
