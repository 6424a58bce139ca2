"""Small functions whose peak hangs on the order or on a fusion, in MB (10^6 bytes), beside eager and torch.compile.

Two of them are measured at many sizes too: the one whose better order depends on the length, and the one where it
depends on half of the rows, whose best peak over all orders is known in closed form.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from benchmarks.backends import EAGER, LOWTIDE, TORCH_COMPILE, compile_for, reset_compiler
from benchmarks.reporting import Report, log_row
from lowtide import measure_peak

_COLUMNS = (EAGER, TORCH_COMPILE, LOWTIDE)


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


def _picked_rows() -> Callable[[Tensor, Tensor], Tensor]:
    """Rows chosen by their content: how many is known only at run time."""

    def function(x: Tensor, weight: Tensor) -> Tensor:
        rows = (x[:, 0] > 0).nonzero().squeeze(1)
        return (x.index_select(0, rows) @ weight).relu().sum(0)

    return function


def _call_picked_rows(function: Any, rows: int) -> Any:
    with torch.no_grad():
        return function(torch.randn(rows, 64), torch.randn(64, 512))


def _head_and_loss() -> Callable[..., Tensor]:
    """Logits over a large vocabulary, and their cross entropy."""

    def function(hidden: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
        return nn.functional.cross_entropy(hidden @ weight.mT, labels)

    return function


def _train_head(function: Any, tokens: int) -> None:
    hidden = torch.randn(tokens, 64, requires_grad=True)
    weight = torch.randn(16000, 64, requires_grad=True)
    function(hidden, weight, torch.randint(0, 16000, (tokens,))).backward()


class _AttentionBlock(nn.Module):
    """A pre-norm block that materialises its scores: length^2 beside length."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """Attention, then the perceptron, each beside a residual."""
        split = self.qkv(self.before(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = split[0] @ split[1].mT * split.shape[-1] ** -0.5
        x = x + self.out((scores.softmax(-1) @ split[2]).transpose(1, 2).flatten(2))
        return x + self.mlp(self.between(x))


def _train_blocks(blocks: Any, length: int) -> None:
    blocks(torch.randn(2, length, 64, requires_grad=True)).square().mean().backward()


def _attention_blocks() -> nn.Module:
    return nn.Sequential(_AttentionBlock(), _AttentionBlock())


CASES: tuple[OrderCase, ...] = (
    OrderCase("two_towers", _TwoTowers, _train_towers, (96, 130), 1024),
    OrderCase("order_depends_on_length_256", _square_beside_wide, _call_square_beside_wide, (256, 288), 2048),
    OrderCase("order_depends_on_length_2048", _square_beside_wide, _call_square_beside_wide, (2048, 2080), 2048),
    OrderCase("data_dependent_size", _picked_rows, _call_picked_rows, (300, 500), 4000),
    OrderCase("head_and_cross_entropy", _head_and_loss, _train_head, (96, 130), 2048),
    OrderCase("attention_blocks_16", _attention_blocks, _train_blocks, (16, 24), 1024),
    OrderCase("attention_blocks_512", _attention_blocks, _train_blocks, (512, 520), 1024),
)
QUICK_CASES = CASES[1:2]
HALF_ROWS = (9, 20, 31, 33, 34, 35, 36, 38, 400, 1001, 4000)
LENGTHS = (16, 64, 128, 256, 512, 1024, 2048, 4096)


def run(*, quick: bool = False, device: str = "cpu", only: str = "") -> Report:
    """Measure every case with eager, torch.compile and lowtide; quick takes one.

    Args:
        quick: A short run.
        device: Only the CPU: on others there is nothing to measure here, and the summary is empty.
        only: Leave out the cases whose name does not contain this.
    """
    if device != "cpu":
        return Report(title="Cases", rows=[], summary={}, notes=["Cases are measured on the CPU only."])
    rows: list[Mapping[str, Any]] = []
    summary: dict[str, float | int] = {}
    # torch 2.13 cannot trace the towers without the first, and leaves the graph at sizes of data without the second.
    with torch._dynamo.config.patch(specialize_float=True, capture_dynamic_output_shape_ops=True):
        for case in (case for case in (QUICK_CASES if quick else CASES) if only.lower() in case.name):
            found = {column: _measure(case, column, [case.measured])[0] / 1e6 for column in _COLUMNS}
            rows.append({"case": case.name, "size": case.measured, **_rounded(found)})
            log_row(rows[-1])
            summary[f"{case.name}_mb"] = found[LOWTIDE]
        if not quick and not only:
            rows += _at_many_lengths(CASES[1])
            summary["half_rows_above_best"] = _half_rows_above_best()
    return Report(
        title="Cases whose peak hangs on the order, MB",
        rows=rows,
        summary=summary,
        notes=["Inputs are made inside the measured call.", "half_rows_above_best: of the sizes " + str(HALF_ROWS)],
    )


def _rounded(found: Mapping[str, float]) -> dict[str, float]:
    return {column: round(value, 3) for column, value in found.items()}


def _at_many_lengths(case: OrderCase) -> list[Mapping[str, Any]]:
    peaks = {column: _measure(case, column, LENGTHS) for column in _COLUMNS}
    return [
        {"case": "order_depends_on_length", "size": length}
        | _rounded({column: found[place] / 1e6 for column, found in peaks.items()})
        for place, length in enumerate(LENGTHS)
    ]


def _half_rows_above_best() -> int:
    """Count the sizes of the half-and-whole case at which lowtide holds more rows than the better of the two orders."""
    reset_compiler()
    function = compile_for(LOWTIDE, _half_and_whole())
    for rows in (64, 90, *HALF_ROWS):
        _call_half_and_whole(function, rows)
    above = 0
    for rows in HALF_ROWS:
        half = rows // 2
        best = min(max(5 * half, half + 2 * (rows + 8)), max(2 * (rows + 8), 6 * half))
        above += _call_half_and_whole(function, rows).peak_bytes > 4 * 256 * best + 4  # the sum is a number more
    return above


def _measure(case: OrderCase, column: str, sizes: Sequence[int]) -> list[int]:
    """Compile once, run at the first sizes, and measure at the others, in bytes."""
    reset_compiler()
    torch.manual_seed(0)
    function = compile_for(column, case.make())
    peaks: list[int] = []
    for size in case.warm_up:
        case.call(function, size)
    for size in sizes:
        case.call(function, size)
        if isinstance(function, nn.Module):
            function.zero_grad(set_to_none=True)
        peaks.append(measure_peak(lambda size=size: case.call(function, size)).peak_bytes)
    return peaks
