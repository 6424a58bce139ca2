"""How many threads the operators of a benchmark use."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def running_on(threads: int) -> Iterator[None]:
    """Run with this many threads, and with as many as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
