"""Let the columns train in turn, each in a process of its own, and show how they come along."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from demo.batches import Batch
from demo.column import Step

_LINES = 8  # progress lines


class ColumnProcess:
    """The process of one column, with compile caches of its own that start empty."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / f"cache-{name}")}
        command = [sys.executable, "-m", "demo.column", name, str(folder)]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()  # nothing where it has ended
        with suppress(BrokenPipeError):
            self._process.__exit__(kind, error, traceback)

    def take_step(self) -> Step:
        """Train on the next batch.

        Raises:
            RuntimeError: The process ended; its own error is above.
        """
        assert self._process.stdin is not None, "bug: opened with pipes"
        assert self._process.stdout is not None, "bug: opened with pipes"
        try:
            self._process.stdin.write("step\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self._fail()
        answer = self._process.stdout.readline()
        if not answer:
            self._fail()
        return Step(**json.loads(answer))

    def finish(self) -> None:
        """Measure the column and write its results.

        Raises:
            RuntimeError: The process failed; its own error is above.
        """
        assert self._process.stdin is not None, "bug: opened with pipes"
        self._process.stdin.close()
        if self._process.wait():
            self._fail()

    def _fail(self) -> None:
        raise RuntimeError(f"the column {self.name} ended with status {self._process.wait()}; its own error is above")


def train_in_turn(names: Sequence[str], batches: Sequence[Batch], folder: Path) -> None:
    """Train every column on every batch, A B C and then C B A, and measure each; results are in the folder after it."""
    shown = max(1, len(batches) // _LINES)
    with ExitStack() as stack:
        columns = [stack.enter_context(ColumnProcess(name, folder)) for name in names]
        for number, batch in enumerate(batches, start=1):
            order = columns if number % 2 else columns[::-1]
            steps = {column.name: column.take_step() for column in order}
            if number == 1 or number % shown == 0:
                _show_progress(number, len(batches), batch, [(name, steps[name]) for name in names])
        for column in columns:
            print(f"{column.name}: measuring at the largest batch ...", flush=True)
            column.finish()


def _show_progress(number: int, total: int, batch: Batch, steps: Sequence[tuple[str, Step]]) -> None:
    filled = 20 * number // total
    shape = " x ".join(f"{size:>3}" for size in batch.shape)
    told = "   ".join(f"{name} loss {step.loss:6.3f} {step.seconds:6.2f} s" for name, step in steps)
    print(f"[{'=' * filled}{' ' * (20 - filled)}] step {number:>3}/{total}  batch {shape}   {told}", flush=True)
