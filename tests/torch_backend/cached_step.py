"""Run as a program of its own: one training step and one inference call; prints what the caches did, as JSON.

Usage: cached_step.py OPTIONS RESULTS, with options of torch.compile as JSON and a file for the tensors.
"""

import json
import sys

import torch
import torch._inductor.config as inductor_config
from torch import nn
from torch._dynamo.utils import counters

from lowtide.capture import find_backend
from lowtide.runtime.registry import compiled_programs


class Constant(nn.Module):
    """Holds tensors that are neither inputs nor parameters: one becomes a constant of the program, one is folded."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        table = torch.tensor([[0.25, -1.5, 3.0, 2.0], [1.0, 0.5, -2.0, 4.0]])
        return self.linear(x).relu() * table[(x[:, 0] > 0).long()] + torch.tensor(0.5)


def main(options: str, results: str) -> None:
    """Run the step and write what it gave."""
    inductor_config.compile_threads = 1
    torch.manual_seed(0)
    model = Constant()
    call = torch.compile(model, backend="lowtide", dynamic=True, options=json.loads(options))
    seen = []
    for n in (5, 3):
        x = torch.randn(n, 8, requires_grad=True)
        y = call(x)
        y.square().sum().backward()
        seen += [y.detach(), x.grad]
    with torch.no_grad():
        seen.append(call(torch.randn(4, 8)))
    seen += [p.grad for p in model.parameters()]
    torch.save(seen, results)
    programs = compiled_programs.programs_of(find_backend(call))
    report = {
        "hits": counters["aot_autograd"]["autograd_cache_hit"],
        "misses": counters["aot_autograd"]["autograd_cache_miss"],
        "bypasses": counters["aot_autograd"]["autograd_cache_bypass"],
        "lowered": counters["inductor"]["extern_calls"],
        "texts": [len(p.program.statements) for p in programs],
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
