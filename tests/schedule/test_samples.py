"""Sampled valuations: admitted, the same each time, corners among them; few or none where they are hard to find."""

from lowtide.schedule.samples import sample_valuations
from lowtide.symbolic import AtMost, Divisible, Equal, Scope, dim

A, B, N = dim("a"), dim("b"), dim("n")
TEXT = Scope({"a": (2, None), "b": (3, 1024), "t": (1, 1024)}, [AtMost(A * B, 4096)])


def test_they_are_admitted_each_once_and_the_same_each_time() -> None:
    found = sample_valuations(TEXT, 80)
    assert len({tuple(valuation.values()) for valuation in found}) == len(found) == 80
    assert all(TEXT.admits(valuation) for valuation in found)
    assert sample_valuations(TEXT, 80) == found


def test_more_of_them_begin_with_the_fewer() -> None:
    assert sample_valuations(TEXT, 80)[:20] == sample_valuations(TEXT, 20)


def test_corners_are_among_the_first() -> None:
    found = sample_valuations(TEXT, 24, frozenset(["t"]))
    for corner in ((2, 3, 1), (2, 3, 16), (1365, 3, 1), (1365, 3, 16), (2, 1024, 1), (2, 1024, 16)):
        assert dict(zip("abt", corner, strict=True)) in found


def test_parameters_of_the_machine_stay_small() -> None:
    assert max(valuation["t"] for valuation in sample_valuations(TEXT, 80, frozenset(["t"]))) == 16
    assert max(valuation["t"] for valuation in sample_valuations(TEXT, 80)) == 1024


def test_a_scope_with_few_valuations_gives_those() -> None:
    assert sample_valuations(Scope({"n": (5, 5)}), 8) == ({"n": 5},)
    assert {v["n"] for v in sample_valuations(Scope({"n": (1, 3)}), 8)} == {1, 2, 3}


def test_rare_valuations_are_left_out_instead_of_failing() -> None:
    rare = Scope({"n": (2, None)}, [Divisible(N * N + N, 100)])
    assert all(rare.admits(valuation) for valuation in sample_valuations(rare, 64))
    rarer = Scope({"a": (1, 4096), "b": (1, 4096), "c": (1, 3)}, [Equal(A * A, 2 * B * B + dim("c"))])
    assert all(rarer.admits(valuation) for valuation in sample_valuations(rarer, 64))
