"""The order with the least peak runs, and a choice made once is remembered."""

import pickle

from lowtide.analysis import PeakTable
from lowtide.runtime.choice import OrderChooser
from lowtide.schedule import OrderPeak
from lowtide.symbolic import dim

LINEAR = OrderPeak(PeakTable((dim("s"),), ((100,),)), ())
SQUARE = OrderPeak(PeakTable((dim("s") * dim("s"), dim("s")), ((1, 0), (0, 2))), ())


def test_the_least_peak_wins_and_the_first_among_equals() -> None:
    chooser = OrderChooser([LINEAR, SQUARE])
    assert [chooser.choose({"s": s}) for s in (1, 99, 100, 101, 5000)] == [1, 1, 0, 0, 0]


def test_a_choice_is_evaluated_once_per_sizes(monkeypatch) -> None:
    chooser = OrderChooser([LINEAR, SQUARE])
    first = chooser.choose({"s": 7})
    monkeypatch.setattr(PeakTable, "at", lambda *_: (_ for _ in ()).throw(AssertionError("evaluated again")))
    assert chooser.choose({"s": 7}) == first


def test_a_single_order_needs_no_sizes() -> None:
    assert OrderChooser([]).choose({}) == 0


def test_a_table_survives_pickling() -> None:
    SQUARE.peak.at({"s": 3})
    assert pickle.loads(pickle.dumps(SQUARE)) == SQUARE


def test_what_is_remembered_depends_on_names_not_on_their_order() -> None:
    by_batch, by_length = (OrderPeak(PeakTable((dim(name),), ((1,),)), ()) for name in ("b", "s"))
    chooser = OrderChooser([by_batch, by_length])
    assert chooser.choose({"b": 2, "s": 1, "other": 5}) == 1
    assert chooser.choose({"s": 2, "b": 1}) == 0


def test_an_order_that_is_higher_beside_an_unknown_workspace_is_not_chosen() -> None:
    own = OrderPeak(PeakTable((dim("s"),), ((10,),)), (PeakTable((dim("s"),), ((3,),)),))
    lower = OrderPeak(PeakTable((dim("s"),), ((8,),)), (PeakTable((dim("s"),), ((3,),)),))
    risky = OrderPeak(PeakTable((dim("s"),), ((5,),)), (PeakTable((dim("s"),), ((4,),)),))
    assert OrderChooser([own, risky]).choose({"s": 2}) == 0
    assert OrderChooser([own, risky, lower]).choose({"s": 2}) == 2
