"""Compile one case in this process and print the seconds: `python -m benchmarks.compile_time COLUMN CASE`.

`benchmarks.parity` starts it with a cache folder of its own, twice: with the folder empty, and again with what
the first process left there.
"""

import json
import sys
import time
from collections.abc import Sequence

import torch
from torch import nn

from benchmarks.backends import count_compilations, make_column
from benchmarks.parity_cases import PARITY_CASES
from benchmarks.steps import drop_gradients, train_step


def main(arguments: Sequence[str]) -> None:
    """Compile forward and backward at the first shape of the case; print JSON on the last line."""
    column_name, case_name = arguments
    case = next(case for case in PARITY_CASES if case.name == case_name)

    # What is imported and set up on the first compile of a process is no part of the case.
    warm_up = nn.Linear(3, 3)
    make_column(column_name, warm_up).run(torch.ones(2, 3)).sum().backward()

    model = case.make_model()
    column = make_column(column_name, model)
    inputs = case.make(*case.first)
    compiled = count_compilations()
    seconds: list[float] = []
    for _ in range(3):
        drop_gradients(model)
        start = time.perf_counter()
        train_step(column.run, inputs)
        seconds.append(time.perf_counter() - start)
    result = {"seconds": seconds[0] - min(seconds[1:]), "compilations": count_compilations() - compiled}
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1:])
