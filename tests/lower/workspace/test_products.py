"""Matrix products on the CPU: predicted workspace is the measured one, to the byte, for any strides."""

import random

import pytest
import torch
from workspace_meter import Case, assert_predicted_is_measured, case, predict_workspace

aten = torch.ops.aten
LENGTHS = (1, 1, 2, 3, 7, 8, 31, 64)
TYPES = (torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16)


def _matrix(rng: random.Random, batch: tuple[int, ...], rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    def zeros(*shape: int) -> torch.Tensor:
        return torch.zeros(*batch, *shape, dtype=dtype)

    return rng.choice(
        [
            lambda: zeros(rows, columns),
            lambda: zeros(columns, rows).mT,
            lambda: zeros(rows, columns + 3)[..., :columns],
            lambda: zeros(columns, rows + 3)[..., :rows].mT,
            lambda: zeros(1, columns).expand(*batch, rows, columns),
            lambda: zeros(rows, 1).expand(*batch, rows, columns),
            lambda: zeros(rows, 2 * columns)[..., ::2],
            lambda: torch.zeros(rows, columns, dtype=dtype).expand(*batch, rows, columns),
        ]
    )()


def _cases(seed: int, threads: int) -> list[Case]:
    rng = random.Random(seed)
    found: list[Case] = []
    for _ in range(60):
        rows, inner, columns = (rng.choice(LENGTHS) for _ in range(3))
        dtype = rng.choice(TYPES)
        left, right = _matrix(rng, (), rows, inner, dtype), _matrix(rng, (), inner, columns, dtype)
        result = rng.choice([torch.empty(rows, columns, dtype=dtype), torch.empty(columns, rows, dtype=dtype).t()])
        addend = torch.zeros(columns, dtype=dtype)
        found.append(case(aten.mm.out, left, right, out=result, threads=threads))
        found.append(case(aten.addmm.out, addend, left, right, out=result, threads=threads))
        batch = rng.choice([1, 2, 5])
        left, right = _matrix(rng, (batch,), rows, inner, dtype), _matrix(rng, (batch,), inner, columns, dtype)
        result = torch.empty(batch, rows, columns, dtype=dtype)
        addend = torch.zeros(batch, 1, columns, dtype=dtype)
        found.append(case(aten.bmm.out, left, right, out=result, threads=threads))
        found.append(case(aten.baddbmm.out, addend, left, right, out=result, threads=threads))
    return found


@pytest.mark.parametrize("threads", [1, 2])
def test_products_take_what_is_predicted(threads: int):
    cases = _cases(7 * threads, threads)
    assert_predicted_is_measured(cases)
    predictions = [predict_workspace(item) for item in cases]
    assert 0 in predictions
    assert any(size for size in predictions)
