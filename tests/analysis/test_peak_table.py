"""A peak table is the peak expression, as numbers."""

from hypothesis import given

from lowtide.analysis import PeakTable, memory_profile
from lowtide.ir import Program
from lowtide.symbolic import evaluate
from tests.random_programs import programs


@given(programs())
def test_a_table_gives_the_peak_at_every_valuation(program: Program) -> None:
    profile = memory_profile(program)
    table, peak = profile.peak_table, profile.peak
    for batch, length, kept in ((1, 1, 0), (2, 3, 1), (4, 4, 4)):
        valuation = {"b": batch, "s": length, "kept": kept}
        assert table.at(valuation) == evaluate(peak, valuation) == max(profile.at(valuation), default=0)
    assert table.dims >= peak.dims


def test_an_empty_table_is_zero() -> None:
    assert PeakTable((), ()).at({}) == 0
