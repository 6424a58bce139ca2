"""explain() tells the peak as a formula in names that people use, and what was assumed."""

import pytest
import torch
from torch import Tensor, nn

import lowtide
from lowtide.explanation import NothingCompiledError, explain_program
from lowtide.runtime.step import MissingSizeError
from lowtide.symbolic import evaluate
from tests.scenarios import diamond, two_towers

ATEN = {"lowering": "aten"}


class Table(nn.Module):
    """Two layers over a table of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(8, 128), nn.Linear(128, 4)

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.narrow(self.wide(input_ids).relu()).square().mean()


def compiled_table() -> nn.Module:
    torch._dynamo.reset()
    torch.manual_seed(0)
    return torch.compile(Table(), backend="lowtide", dynamic=True, options=ATEN)  # type: ignore[return-value]


def test_formula_of_a_program_is_that_of_its_largest_footprint() -> None:
    explanation = explain_program(diamond())
    assert explanation.peak == "4096*batch"
    assert explanation.kind == "inference"
    assert explanation.dimensions == ("batch",)
    assert explanation.peak_at(batch=3).bytes == 4096 * 3


def test_formula_names_each_footprint_that_is_the_largest_somewhere() -> None:
    program = two_towers()
    explanation = explain_program(program)
    for batch, sequence in ((1, 5), (64, 4096), (7, 1008)):
        expected = 4160 * batch + 4 * batch * sequence
        assert explanation.peak_at(batch=batch, sequence=sequence).bytes == expected
        assert evaluate(explanation.peak_expression, {"batch": batch, "seq": sequence}) == expected
    assert explanation.peak == "4*batch*sequence + 4160*batch"


def test_says_what_is_live_at_the_peak() -> None:
    fact = explain_program(diamond()).peak_at(batch=2)
    assert fact.statement == "h"
    assert [b.name for b in fact.buffers] == ["b", "a", "c"]


def test_a_missing_size_is_named() -> None:
    with pytest.raises(MissingSizeError, match="no size for sequence"):
        explain_program(two_towers()).peak_at(batch=2)


def test_predicts_the_measured_peak_of_a_training_step() -> None:
    model = compiled_table()

    def step(rows: int) -> int:
        x = torch.randn(rows, 8)
        for parameter in model.parameters():
            parameter.grad = None
        return lowtide.measure_peak(lambda: model(input_ids=x).backward()).peak_bytes

    step(5)
    explanation = lowtide.explain(model)
    for rows in (3, 64, 257):
        assert explanation.peak_at(batch=rows).bytes == step(rows)
    assert "batch" in explanation.peak
    assert "gradients are new tensors" in str(explanation)


def test_a_model_not_called_yet_has_nothing_to_explain() -> None:
    with pytest.raises(NothingCompiledError, match="call the model once"):
        lowtide.explain(compiled_table())


def test_something_never_compiled_has_nothing_to_explain() -> None:
    with pytest.raises(NothingCompiledError, match="not compiled"):
        lowtide.explain(nn.Linear(2, 2))


def test_several_programs_are_told_one_by_one() -> None:
    model = compiled_table()
    model(input_ids=torch.randn(4, 8)).backward()
    with torch.no_grad():
        model(input_ids=torch.randn(4, 8))
    explanation = lowtide.explain(model)
    assert sorted(p.kind for p in explanation.programs) == ["inference", "training"]
    assert explanation.peak == next(p.peak for p in explanation.programs if p.kind == "training")


def test_a_workspace_without_formula_is_named_and_its_bytes_are_measured() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model: nn.Module = torch.compile(nn.Conv2d(4, 8, 3), backend="lowtide", dynamic=True, options=ATEN)  # type: ignore[assignment]
    batch: dict[int, Tensor] = {n: torch.randn(n, 4, 9, 9) for n in (2, 5)}

    def step(images: Tensor) -> Tensor:
        loss = model(images).square().sum()
        loss.backward()
        return loss

    step(batch[2])
    (program,) = lowtide.explain(model).programs
    assert program.dimensions[0] == "batch"
    sizes = {**dict.fromkeys(program.dimensions, 9), "batch": 5}
    fact = program.peak_at(**sizes)
    with lowtide.record_step() as recorded:
        model.zero_grad(set_to_none=True)
        step(batch[2])
    assert "convolution_backward" in " ".join(program.assumptions)
    assert "no formula; measured where the call can run alone" in str(program)
    assert fact.measured == ("aten.convolution_backward.default",)
    assert fact.left_out == ()
    assert any("convolution_backward" in b.name for b in fact.workspace)
    assert recorded.predict(sizes).probed == ("aten.convolution_backward.default",)


def test_a_workspace_that_cannot_be_measured_alone_is_named_as_left_out() -> None:
    torch._dynamo.reset()

    def drawn(x: Tensor) -> Tensor:
        return torch.multinomial(x.softmax(-1), 5)

    call = torch.compile(drawn, backend="lowtide", dynamic=True, options=ATEN)
    call(torch.randn(6, 70))
    (program,) = lowtide.explain(call).programs
    fact = program.peak_at(**dict.fromkeys(program.dimensions, 50))
    assert fact.left_out == ("aten.multinomial.default",)
    assert fact.measured == ()


def test_graphs_on_torchs_own_path_are_listed_with_the_reason() -> None:
    torch._dynamo.reset()

    def branching(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda v: v.sin(), lambda v: v.cos(), (x,))

    call = torch.compile(branching, backend="lowtide", dynamic=True, options=ATEN)
    with pytest.warns(lowtide.FallbackWarning):
        call(torch.randn(3, 8))
    explanation = lowtide.explain(call)
    assert explanation.programs == ()
    (fallback,) = explanation.fallbacks
    assert "Found:" in fallback.reason
    assert fallback.reason in str(explanation)
    with pytest.raises(lowtide.LowtideError, match="fallbacks 1"):
        explanation.peak  # noqa: B018
