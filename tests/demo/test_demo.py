"""The parts of the demo that need no training."""

import json
from dataclasses import asdict

import pytest
import torch

from benchmarks.backends import EAGER, LOWTIDE, TORCH_COMPILE
from demo.batches import CODE, DOCSTRING, END, PAD, make_batches, train_tokenizer
from demo.column import ColumnResult, ColumnTraining, Step, load_batches, read_result, save_batches
from demo.corpus import Sample, read_samples
from demo.picture import draw_memory, place_footprints
from demo.settings import Settings
from demo.summary import summarize
from demo.turns import train_in_turn


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    return read_samples(200)


@pytest.fixture(scope="module")
def batches(samples: list[Sample]):
    return make_batches(samples, train_tokenizer(samples, 512), batch=4, longest=300, count=6, seed=0)


def test_corpus_is_code_with_docstrings(samples: list[Sample]):
    assert len(samples) == 200
    assert all(sample.docstring and "def " in sample.code for sample in samples)
    assert not any('"""' in sample.code.partition("\n")[2][:8] for sample in samples), "docstrings are not in the code"
    assert samples == read_samples(200)


def test_batches_are_padded_to_their_own_longest_sample_only(batches):
    assert len(batches) == 6
    assert len({batch.shape[1] for batch in batches}) > 3
    for batch in batches:
        assert batch.shape[0] == 4
        assert batch.attention_mask[:, -1].any(), "some sample reaches the end"
        assert ((batch.labels == -100) | (batch.labels == batch.input_ids)).all()
        assert (batch.labels[batch.attention_mask == 0] == -100).all()


def test_docstrings_are_not_scored(samples: list[Sample]):
    tokenizer = train_tokenizer(samples, 512)
    (batch,) = make_batches(samples, tokenizer, batch=1, longest=300, count=1, seed=0)
    ids, labels = batch.input_ids[0], batch.labels[0]
    start = ids.tolist().index(tokenizer.token_to_id(CODE))
    assert ids[0] == tokenizer.token_to_id(DOCSTRING)
    assert (labels[: start + 1] == -100).all()
    assert (labels[start + 1 :] == ids[start + 1 :]).all()
    assert labels[-1] == tokenizer.token_to_id(END)
    assert tokenizer.token_to_id(PAD) == 0


def test_batches_survive_the_way_to_another_process(batches, tmp_path):
    save_batches(batches, tmp_path)
    for before, after in zip(batches, load_batches(tmp_path), strict=True):
        assert torch.equal(before.input_ids, after.input_ids)
        assert torch.equal(before.labels, after.labels)


SETTINGS = Settings(vocabulary=512, batch=4, longest=300, steps=6, hidden=32, layers=1, heads=2)


def test_eager_column_learns_and_is_measured(batches, tmp_path):
    training = ColumnTraining(EAGER, batches, SETTINGS)
    result = training.measure(list(training.steps()), tmp_path)
    assert len(result.steps) == 6
    assert result.steps[-1].loss < result.steps[0].loss
    assert result.predicted_peak is None
    assert result.measured_peak == max(result.timeline)


def test_columns_in_turn_train_as_alone(batches, tmp_path, capsys):
    save_batches(batches, tmp_path)
    (tmp_path / "settings.json").write_text(json.dumps(asdict(SETTINGS)))
    train_in_turn([EAGER], batches, tmp_path)
    alone = [step.loss for step in ColumnTraining(EAGER, batches, SETTINGS).steps()]
    assert [step.loss for step in read_result(tmp_path, EAGER).steps] == alone
    assert "step   6/6" in capsys.readouterr().out


def test_a_column_that_fails_ends_the_demo(batches, tmp_path):
    save_batches(batches, tmp_path)
    with pytest.raises(RuntimeError, match="column eager ended with status 1"):
        train_in_turn([EAGER], batches, tmp_path)


def test_footprints_are_placed_where_exactly_that_many_bytes_were_live():
    assert place_footprints([10, 30, 20, 99, 20], [10, 5, 30, 20, 40, 20]) == [0, 2, 3, None, 3]
    assert place_footprints([], [1]) == []


def _result(name: str, seconds: float, compilations: int, peak: int, predicted: int | None) -> ColumnResult:
    steps = [Step(seconds + 8 * compilations, 6.0, 100, compilations), *(Step(seconds, 5.0, 100, 0) for _ in range(4))]
    return ColumnResult(name, steps, predicted, peak, (peak,) if predicted else (), (peak // 2, peak, 0))


def test_table_and_picture(tmp_path):
    torch.save([{"w": torch.ones(2)}, {"w": torch.ones(2)}], tmp_path / f"{TORCH_COMPILE}.gradients.pt")
    torch.save([{"w": torch.ones(2)}, {"w": torch.ones(2)}], tmp_path / f"{LOWTIDE}.gradients.pt")
    results = [
        _result(EAGER, 2.0, 0, 4_000_000, None),
        _result(TORCH_COMPILE, 1.0, 1, 2_000_000, None),
        _result(LOWTIDE, 1.0, 1, 1_000_000, 1_000_000),
    ]
    report = summarize(results, tmp_path, (8, 501))
    assert json.loads(json.dumps(report.summary)) == {
        "cases": 1,
        "mismatched": 0,
        "architectures": 1,
        "step_time_ratio_max": 1.0,
        "step_time_quartiles": [1.0, 1.0],
        "compile_time_ratio_max": 1.0,
        "peak_ratio_max": 0.5,
        "extra_compilations": 0,
        "gradients_differ": 0,
    }
    assert [row["tokens_per_second"] for row in report.rows] == [50.0, 100.0, 100.0]
    assert [row["compile_seconds"] for row in report.rows] == [0, 8.0, 8.0]
    draw_memory(results, (8, 501), tmp_path / "memory.png")
    assert (tmp_path / "memory.png").read_bytes().startswith(b"\x89PNG")
