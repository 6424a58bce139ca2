"""The harness of the benchmarks: what it counts, and what it writes."""

import json

import pytest
import torch

from benchmarks.backends import EAGER, make_column
from benchmarks.models import CASES, CONV_NET, Case, loss_of
from benchmarks.parity_cases import PARITY_CASES
from benchmarks.reporting import Report, format_cell, make_console, print_report, write_json
from benchmarks.steps import count_differing_gradients, drop_gradients, take_gradients
from benchmarks.timing import Paired, time_paired


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_has_a_loss_and_gradients(case: Case):
    model = case.make_model()
    batch, length = case.unseen[0]
    gradients = take_gradients(model, model, case.make(batch, length), seed=0)
    assert gradients
    assert all(parameter.grad is None for parameter in model.parameters())
    loss = loss_of(model, case.make(batch, length))
    assert loss.ndim == 0
    assert torch.isfinite(loss)


@pytest.mark.parametrize("case", [*CASES, *PARITY_CASES], ids=lambda case: case.name)
def test_shapes_are_unseen_and_varied(case: Case):
    assert case.first not in case.unseen
    assert len(set(case.unseen)) == len(case.unseen)
    if case in CASES:
        assert len(case.unseen) == 6
        assert any(batch == 1 for batch, _ in case.unseen)
        assert any(length % 2 for _, length in case.unseen)


def test_text_cases_lie_on_both_sides_of_the_changes_of_attention_blocks():
    for case in CASES:
        if case.sizes(2, 3).keys() & {"sequence", "label_sequence"}:
            lengths = [length for _, length in case.unseen]
            for change in (192, 768):
                assert any(length < change for length in lengths)
                assert any(length > change for length in lengths)


def test_a_case_is_the_same_every_time():
    first, second = CONV_NET.make_model(), CONV_NET.make_model()
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert torch.equal(CONV_NET.make(2, 9)["images"], CONV_NET.make(2, 9)["images"])


def test_equal_gradients_do_not_differ():
    one = {"w": torch.tensor([1.0, 2.0])}
    assert count_differing_gradients([one, one], one) == 0


def test_one_bit_is_a_difference_where_the_reference_repeats_itself():
    one = {"w": torch.tensor([1.0, 2.0]), "v": torch.zeros(1)}
    other = {"w": torch.tensor([1.0, 2.0000002]), "v": torch.zeros(1)}
    assert count_differing_gradients([one, one], other) == 1


def test_the_noise_of_the_reference_is_allowed_for():
    one, again = {"w": torch.tensor([1.0])}, {"w": torch.tensor([1.0 + 1e-6])}
    assert count_differing_gradients([one, again], {"w": torch.tensor([1.0 - 2e-6])}) == 0
    assert count_differing_gradients([one, again], {"w": torch.tensor([1.1])}) == 1


def test_a_nan_or_a_missing_gradient_differs():
    one = {"w": torch.tensor([1.0])}
    assert count_differing_gradients([one], {"w": torch.tensor([float("nan")])}) == 1
    assert count_differing_gradients([one], {}) == 1


def test_pairs_are_timed_in_turn_and_the_order_is_swapped():
    calls: list[str] = []
    paired = time_paired(lambda: calls.append("a"), lambda: calls.append("b"), rounds=4, seconds=0.0)
    assert calls == ["a", "b", "b", "a", "a", "b", "b", "a"]
    assert len(paired.first) == len(paired.second) == 4


def test_ratio_is_the_median_of_the_pairs():
    paired = Paired([1.0, 1.0, 2.0], [1.0, 1.5, 8.0])
    assert paired.ratios == [1.0, 1.5, 4.0]
    assert paired.ratio == 1.5
    assert paired.spread == (1.25, 2.75)


def test_report_is_written_with_machine_and_commit(tmp_path, capsys):
    report = Report("A title", [{"model": "Llama", "peak": 1234567, "ratio": None}], {"cases": 1}, ["A note."])
    write_json(report, tmp_path / "deep" / "out.json")
    written = json.loads((tmp_path / "deep" / "out.json").read_text())
    assert set(written) >= {"machine", "commit", "rows", "summary"}
    assert written["rows"] == [{"model": "Llama", "peak": 1234567, "ratio": None}]
    print_report(report, make_console())
    shown = capsys.readouterr().out
    for part in ("A title", "1,234,567", "cases: 1", "A note."):
        assert part in shown


def test_cells_are_written_for_people():
    assert format_cell("x", 1234567) == "1,234,567"
    assert format_cell("x", 0.12345) == "0.123"
    assert format_cell("x", True) == "yes"
    assert format_cell("shape", [2, 64]) == "2 x 64"
    assert format_cell("x", None) == "-"


def test_eager_column_is_the_model_itself():
    model = CONV_NET.make_model()
    assert make_column(EAGER, model).run is model
    drop_gradients(model)
