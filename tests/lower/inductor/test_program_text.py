"""A program depends on the model and on what sizes may be, never on which batch came first."""

from dataclasses import replace

import torch
import torch._functorch.config as functorch_config
from torch import Tensor, nn

import lowtide
from lowtide.ir import parse_program, render_program


class Block(nn.Module):
    """A pre-norm block with its attention scores materialised: terms in s and in s*s."""

    def __init__(self, width: int = 32, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm(x)).chunk(3, -1)
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for t in parts)
        scores = (q @ k.transpose(-1, -2)).softmax(-1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(x)


def text_after_first(batch: int, length: int) -> str:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = nn.Sequential(Block(), Block())
    compiled = torch.compile(model, backend="lowtide", dynamic=True, options={"fallback": False})
    with functorch_config.patch(enable_autograd_cache=False):  # the text is to be made anew, not read
        compiled(torch.randn(batch, length, 32)).square().mean().backward()
    (explained,) = lowtide.explain(compiled).programs
    return render_program(replace(explained.program, name="blocks"))


def test_the_text_is_the_same_whatever_came_first() -> None:
    first = text_after_first(2, 16)
    assert text_after_first(5, 512) == first
    assert render_program(parse_program(first)) == first
