"""Small functions whose peak hangs on the order, measured in MB (10^6 bytes) at one size each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from benchmarks.backends import EAGER, LOWTIDE, TORCH_COMPILE, compile_for, reset_compiler
from lowtide import measure_peak


@dataclass(frozen=True, slots=True)
class OrderCase:
    """A function, the sizes it is called at before, and the size it is measured at.

    Attributes:
        name: What the summary calls it.
        make: Makes the function or module.
        call: Makes inputs of a size and calls it, backward included where the case trains.
        warm_up: Sizes of the first calls.
        measured: Size of the measured call.
    """

    name: str
    make: Callable[[], Any]
    call: Callable[[Any, int], Any]
    warm_up: tuple[int, ...]
    measured: int


class _TwoTowers(nn.Module):
    """Two passes over the same recomputed blocks: recomputation that comes too early piles up."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)) for _ in range(8)
        )

    def _tower(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + checkpoint(block, x, use_reentrant=False)
        return x.sum()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Both towers, added up."""
        return self._tower(x) + self._tower(y)


def _train_towers(towers: Any, rows: int) -> None:
    towers(torch.randn(rows, 64), torch.randn(rows, 64)).backward()


def _square_beside_wide() -> Callable[[Tensor, Tensor], Tensor]:
    """A branch of length^2 beside a branch of 1024 x length."""

    def function(x: Tensor, weight: Tensor) -> Tensor:
        scores = x @ x.mT
        wide = (x @ weight).relu()
        return scores.softmax(dim=-1) @ (wide @ weight.mT) + scores.mean()

    return function


def _call_square_beside_wide(function: Any, length: int) -> Any:
    with torch.no_grad():
        return function(torch.randn(length, 32), torch.randn(32, 1024))


def _half_and_whole() -> Callable[..., Tensor]:
    """One branch over the first half of the rows, one over all of them and eight more."""

    def function(x: Tensor, *weights: Tensor) -> Tensor:
        half = x.shape[0] // 2
        left = x[:half] @ weights[0] @ weights[1]
        right = (torch.cat([x, x[:8]]) @ weights[2])[:half] @ weights[3]
        return (left * right).sum()

    return function


def _call_half_and_whole(function: Any, rows: int) -> Any:
    shapes = ((256, 1024), (1024, 256), (256, 256), (256, 256))
    weights = [torch.randn(shape) for shape in shapes]
    x = torch.randn(rows, 256)
    with torch.no_grad():
        return measure_peak(lambda: function(x, *weights))


CASES: tuple[OrderCase, ...] = (
    OrderCase("two_towers", _TwoTowers, _train_towers, (96, 130), 1024),
    OrderCase("square_beside_wide_256", _square_beside_wide, _call_square_beside_wide, (256, 288), 2048),
    OrderCase("square_beside_wide_2048", _square_beside_wide, _call_square_beside_wide, (2048, 2080), 2048),
)
HALF_ROWS = (9, 20, 31, 33, 34, 35, 36, 38, 400, 1001, 4000)


def measure_cases() -> dict[str, float | int]:
    """Measure every case with eager, torch.compile and lowtide.

    Returns:
        `<case>_<column>_mb` for each, and `half_rows_above_best`: at how many of the sizes of the half-and-whole case
        lowtide holds more rows than the better of the two orders.
    """
    found: dict[str, float | int] = {}
    with torch._dynamo.config.patch(specialize_float=True):  # torch 2.13 cannot trace the towers otherwise
        for case in CASES:
            for column in (EAGER, TORCH_COMPILE, LOWTIDE):
                found[f"{case.name}_{column.replace('.', '_')}_mb"] = _measure(case, column) / 1e6
    reset_compiler()
    function = compile_for(LOWTIDE, _half_and_whole())
    for rows in (64, 90, *HALF_ROWS):
        _call_half_and_whole(function, rows)
    above = 0
    for rows in HALF_ROWS:
        half = rows // 2
        best = min(max(5 * half, half + 2 * (rows + 8)), max(2 * (rows + 8), 6 * half))
        above += _call_half_and_whole(function, rows).peak_bytes > 4 * 256 * best + 4
    return {**found, "half_rows_above_best": above}


def _measure(case: OrderCase, column: str) -> int:
    reset_compiler()
    torch.manual_seed(0)
    function = compile_for(column, case.make())
    for size in (*case.warm_up, case.measured):
        case.call(function, size)
    if isinstance(function, nn.Module):
        function.zero_grad(set_to_none=True)
    return measure_peak(lambda: case.call(function, case.measured)).peak_bytes
