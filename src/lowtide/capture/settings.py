"""Inductor's own options: which there are, what they are now, what a mode stands for, which lowtide cannot serve."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_origin

import torch._inductor.config
from torch._inductor import list_mode_options

# A module that torch extends at import: what it can do is not known before.
inductor_config: Any = torch._inductor.config


@dataclass(frozen=True, slots=True)
class FixedSetting:
    """An Inductor option that lowtide needs at one value.

    Attributes:
        value: The value needed.
        reason: Why, as the end of "... because ...".
        is_checked_globally: Whether another value in `torch._inductor.config` is a conflict too. Where it is not,
            torch's default differs and lowtide sets the value by itself.
    """

    value: Any
    reason: str
    is_checked_globally: bool = False


FIXED_SETTINGS: Mapping[str, FixedSetting] = {
    "cpp_wrapper": FixedSetting(False, "lowtide emits the code that calls the kernels, in Python", True),
    "fx_wrapper": FixedSetting(False, "lowtide emits the code that calls the kernels, in Python", True),
    "triton.cudagraphs": FixedSetting(False, "a recorded CUDA graph owns memory that the plan does not know", True),
    "cudagraph_policy": FixedSetting(None, "a recorded CUDA graph owns memory that the plan does not know", True),
    "memory_planning": FixedSetting(False, "lowtide plans the memory", True),
    "freezing": FixedSetting(False, "parameters folded into a graph are neither inputs nor counted", True),
    "custom_partitioner_fn": FixedSetting(None, "lowtide's own partitioner joins forward and backward", True),
    "cpu_backend": FixedSetting("cpp", "only generated C++ is understood on CPU", True),
    "cuda_backend": FixedSetting("triton", "only generated Triton is understood on CUDA", True),
    "allow_buffer_reuse": FixedSetting(False, "the plan decides which buffers share storage"),
    "inplace_buffers": FixedSetting(False, "the plan decides which buffers share storage"),
    "graph_partition": FixedSetting(False, "a graph becomes one program"),
    "size_asserts": FixedSetting(False, "the emitted code has no lines but the program's"),
    "alignment_asserts": FixedSetting(False, "the emitted code has no lines but the program's"),
}
"""The options of Inductor that lowtide needs at one value, by name."""


def current_settings() -> dict[str, Any]:
    """Every option of Inductor and its present value."""
    return dict(inductor_config.get_config_copy())


def mode_settings(mode: str | None) -> dict[str, Any] | None:
    """The options that a mode of torch.compile stands for; None if torch knows no such mode."""
    if mode is None or mode == "default":
        return {}
    modes: Mapping[str, Any] = list_mode_options()
    return dict(modes[mode]) if mode in modes else None


def mode_names() -> tuple[str, ...]:
    """The modes that torch.compile knows."""
    return tuple(list_mode_options())


def has_right_type(name: str, value: Any) -> bool:
    """Tell whether a value is of the type that Inductor declares for an option. Unions and literals are not checked."""
    declared: Any = inductor_config.get_type(name)
    return get_origin(declared) is not None or not isinstance(declared, type) or isinstance(value, declared)
