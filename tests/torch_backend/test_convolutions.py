"""Convolutions: Inductor lays activations out as it likes, and backward must be compiled for what forward gives."""

import torch
from torch import nn

from tests.torch_backend.pairs import assert_trains_like_torch_compile


class Small(nn.Module):
    """Convolution, batch norm and max-pool, a second convolution and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, stride=2, padding=1),
        )
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).mean((2, 3)))


def test_gradients_and_running_statistics_equal_torch_compiles_on_new_batches():
    # Max-pooling makes torch compile for one picture size; the batch varies.
    assert_trains_like_torch_compile(Small, [(torch.randn(n, 3, 12, 12),) for n in (2, 5)], eager_tolerance=1e-3)


def test_channels_last_inputs():
    class Single(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3)

        def forward(self, x):
            return self.conv(x).relu()

    batches = [(torch.randn(2, 3, s, s).to(memory_format=torch.channels_last),) for s in (8, 9)]
    assert_trains_like_torch_compile(Single, batches, eager_tolerance=1e-3)
