"""A tensor without elements by which autograd sees that backward depends on the inputs of forward.

The saved state is opaque: autograd finds no saved tensor that needs a gradient, and a second derivative
(`create_graph=True`) would be taken for zero where torch.compile refuses it. A link is saved beside the state and
leads back to every input that needs a gradient.
"""

from collections.abc import Iterable
from typing import Any

import torch


class _Link(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: torch.Tensor) -> torch.Tensor:
        return torch.empty(0)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        raise RuntimeError("torch.compile with aot_autograd does not currently support double backward")


def link_to(args: Iterable[Any]) -> torch.Tensor:
    """A tensor without elements whose autograd graph leads to every argument that needs a gradient.

    Holds the graph of the arguments alive, as the output of forward does, and no tensor.

    Cost: linear in the arguments.
    """
    with torch.enable_grad():
        link: torch.Tensor = _Link.apply(*[a for a in args if isinstance(a, torch.Tensor) and a.requires_grad])
    return link
