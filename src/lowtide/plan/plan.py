"""A plan: the order in which statements run, and which buffers take over the storage of others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


def _no_reuse() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Plan:
    """What to change about a program, as facts; `apply_plan` changes it, `check_plan` says whether it may.

    Attributes:
        order: For each step the index of the statement that runs there.
        reuse: Buffer -> the buffer whose storage it takes over, in place, in the statement that defines it.
            Chains are allowed: with `{"c": "b", "b": "a"}` all three live in the storage of `a`.
    """

    order: tuple[int, ...]
    reuse: Mapping[str, str] = field(default_factory=_no_reuse)

    def __post_init__(self) -> None:
        """Shield the mapping, so that a plan cannot be changed through a dict its maker kept."""
        object.__setattr__(self, "reuse", MappingProxyType(dict(self.reuse)))
