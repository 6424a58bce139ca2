"""Canonical hints depend on ranges alone."""

import pytest

from lowtide.lower.joint.hints import canonical_hint


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(2, None, 64), (None, None, 64), (2, 10, 10), (100, None, 100), (100, 200, 100), (0, 0, 0)],
)
def test_hint_lies_in_the_range_and_is_typical_where_it_can_be(
    low: int | None, high: int | None, expected: int
) -> None:
    assert canonical_hint(low, high) == expected
