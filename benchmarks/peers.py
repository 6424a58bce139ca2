"""torch.compile and lowtide side by side: a copy of the model for each, run on the same batches and compared."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from benchmarks.backends import LOWTIDE, TORCH_COMPILE, Column, count_compilations, make_column, reset_compiler
from benchmarks.models import Case, Shape
from benchmarks.steps import (
    REFERENCE_RUNS,
    Gradients,
    count_differing_gradients,
    drop_gradients,
    take_gradients,
    to_device,
    train_step,
)
from lowtide import measure_peak

SEED = 7


@dataclass(frozen=True, slots=True)
class Peer:
    """A column with its own copy of the model, and how many graphs it has compiled."""

    model: nn.Module
    column: Column
    compilations: list[int] = field(default_factory=list)

    def step(self, inputs: Mapping[str, Any]) -> None:
        """Train one step, from no gradients."""
        drop_gradients(self.model)
        train_step(self.column.run, inputs)

    def step_counting(self, inputs: Mapping[str, Any]) -> None:
        """Train one step and note how many graphs it compiled."""
        before = count_compilations()
        self.step(inputs)
        self.compilations.append(count_compilations() - before)

    def measure(self, inputs: Mapping[str, Any], device: str) -> int:
        """The peak of a step in bytes."""
        drop_gradients(self.model)
        return measure_peak(lambda: train_step(self.column.run, inputs), device=device).peak_bytes

    def gradients(self, inputs: Mapping[str, Any]) -> Gradients:
        """The gradients of a step from a fixed random state."""
        return take_gradients(self.model, self.column.run, inputs, SEED)


@dataclass(frozen=True, slots=True)
class Pair:
    """Both peers on one case.

    Attributes:
        case: The case.
        model: The model that both are copies of, not compiled.
        reference: torch.compile.
        ours: lowtide.
    """

    case: Case
    model: nn.Module
    reference: Peer
    ours: Peer

    def batches(
        self, shapes: Sequence[Shape], device: str, failures: list[str]
    ) -> Iterator[tuple[Shape, dict[str, Any]]]:
        """Run both peers at the first shape and at the others; yield each of the others with its inputs.

        A shape at which torch.compile itself fails is noted in `failures` and left out; lowtide must run there.
        """
        for shape in (self.case.first, *shapes):
            inputs = to_device(self.case.make(*shape), device)
            self.ours.step_counting(inputs)
            try:
                self.reference.step_counting(inputs)
            except (RuntimeError, AssertionError) as error:
                failures.append(f"torch.compile failed on {self.case.name} at {shape}: {str(error).splitlines()[0]}")
                continue
            if shape != self.case.first:
                yield shape, inputs

    def compare_peaks(self, inputs: Mapping[str, Any], device: str) -> dict[str, Any]:
        """Peaks and their ratio, as columns of a row."""
        reference, ours = self.reference.measure(inputs, device), self.ours.measure(inputs, device)
        return {"torch_compile_peak": reference, "lowtide_peak": ours, "peak_ratio": ours / reference}

    def count_differing(self, inputs: Mapping[str, Any], found: Gradients) -> int:
        """How many of lowtide's gradients are not torch.compile's."""
        return count_differing_gradients([self.reference.gradients(inputs) for _ in range(REFERENCE_RUNS)], found)


def make_pair(case: Case, device: str) -> Pair:
    """Build the model of a case and a copy for each peer; nothing is compiled yet."""
    reset_compiler()
    model = case.make_model().to(device)
    copies = {name: copy.deepcopy(model) for name in (TORCH_COMPILE, LOWTIDE)}
    reference, ours = (Peer(own, make_column(name, own)) for name, own in copies.items())
    return Pair(case, model, reference, ours)
