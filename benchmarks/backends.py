"""The columns of every comparison, and how each is compiled: the one place that names the backends."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch._dynamo.utils import counters

EAGER = "eager"
TORCH_COMPILE = "torch.compile"
LOWTIDE = "lowtide"
LOWTIDE_STATIC = "lowtide, one shape"

# What `torch.compile(backend=...)` is told for each column.
_BACKENDS = {
    TORCH_COMPILE: "inductor",
    LOWTIDE: "lowtide",
    LOWTIDE_STATIC: "lowtide",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One way of running a model.

    Attributes:
        name: eager, torch.compile or lowtide.
        run: Call it as the model is called.
    """

    name: str
    run: Callable[..., Any]


def make_column(name: str, model: nn.Module) -> Column:
    """Prepare `model` for a column; nothing is compiled before the first call."""
    return Column(name, compile_for(name, model))


def compile_for(name: str, model: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a module or a function as a column does; eager leaves it as it is."""
    if name == EAGER:
        return model
    # Several columns and every shape that torch recompiles for count towards the limit of one code object. Past
    # it torch runs the model without compiling, which would be compared with a compiled one.
    torch._dynamo.config.recompile_limit = 64
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    return torch.compile(model, backend=_BACKENDS[name], dynamic=name != LOWTIDE_STATIC)


def count_compilations() -> int:
    """Count the graphs that torch has handed to a backend since the last reset."""
    return counters["stats"]["unique_graphs"]


def reset_compiler() -> None:
    """Forget every compiled graph of this process and start counting at zero."""
    torch.compiler.reset()
    counters.clear()
