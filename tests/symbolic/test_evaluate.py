"""Evaluation is exact, and says what is missing."""

import numpy as np
import pytest

from lowtide.symbolic import MissingVariableError, UndefinedSizeError, compile_batch, dim, evaluate, maximum

s, b = dim("s"), dim("b")


def test_values_are_exact_beyond_machine_integers() -> None:
    assert evaluate(s**3 * 4, {"s": 10**9}) == 4 * 10**27
    assert evaluate(s, {"s": np.int32(7)}) == 7


def test_a_missing_variable_is_named() -> None:
    with pytest.raises(MissingVariableError) as caught:
        evaluate(s // 2 + maximum(b, 3), {"s": 4})
    assert caught.value.name == "b"
    assert caught.value.known == ("s",)


def test_a_zero_denominator_is_told() -> None:
    with pytest.raises(UndefinedSizeError) as caught:
        evaluate(s // b, {"s": 4, "b": 0})
    assert caught.value.valuation == {"s": 4, "b": 0}
    with pytest.raises(UndefinedSizeError):
        compile_batch([s // b]).at({"s": 4, "b": 0})


def test_values_are_integers() -> None:
    with pytest.raises(TypeError):
        evaluate(s, {"s": 1.5})  # pyright: ignore[reportArgumentType]


def test_a_batch_is_int64_where_that_is_proved_to_fit() -> None:
    batch = compile_batch([s * 4, s * b - 3, s - s, s // 2 + 1])
    values = batch.at({"s": 5, "b": 2})
    assert values.dtype == np.int64
    assert values.tolist() == [20, 7, 0, 3]
    assert len(batch) == 4


def test_a_batch_never_overflows() -> None:
    batch = compile_batch([s**4, 2**70 * b, s - s])
    values = batch.at({"s": 10**6, "b": 1})
    assert values.tolist() == [10**24, 2**70, 0]
    # Where the values fit but parts of the sums would not, the result is int64 again.
    tight = compile_batch([s * s * s * s - s**4 + 7, 3 * s**4 - s**3 * (3 * s - 1)]).at({"s": 2**20})
    assert tight.tolist() == [7, 2**60]
    near = compile_batch([s, -s]).at({"s": 2**63 - 1})
    assert near.tolist() == [2**63 - 1, -(2**63) + 1]
    assert compile_batch([s]).at({"s": -(2**63)}).tolist() == [-(2**63)]


def test_an_empty_batch_and_a_missing_variable() -> None:
    assert compile_batch([]).integers_at({}) == []
    with pytest.raises(MissingVariableError):
        compile_batch([s]).at({})
