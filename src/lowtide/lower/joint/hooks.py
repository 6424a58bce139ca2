"""What the runtime brings to a lowering, and what a lowering hands to the runtime."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from lowtide.lower.joint.assemble import Assembled


class LoadableProgram(Protocol):
    """A compiled program at rest: `payload` is what `Hooks.plan` made of it."""

    @property
    def title(self) -> str:
        """Name shown in tracebacks and reports."""
        ...

    @property
    def payload(self) -> Any:
        """What the runtime made of the program."""
        ...


@dataclasses.dataclass(frozen=True)
class Hooks:
    """What the runtime brings to the pipeline.

    Attributes:
        plan: Makes the picklable payload of an artifact from a program.
        load: Makes something runnable of an artifact and its kernels: has `forward`, `infer` and `title`.
        keep_graph: Whether the running backward must keep its state.
        state_value: An example of the opaque state.
        identity: Identifies version and options in torch's cache keys.
    """

    plan: Callable[[Assembled], Any]
    load: Callable[[Any, Mapping[str, Any]], Any]
    keep_graph: Callable[[], bool]
    state_value: Callable[[], Any]
    identity: str
