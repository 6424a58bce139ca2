"""From foreign programs to ours: what dynamo and Inductor know about a compiled model and its options."""

from lowtide.capture.copies import copy_captured, plain_function
from lowtide.capture.owner import compiled_autograd_is_on, current_backend, find_backend
from lowtide.capture.settings import (
    FIXED_SETTINGS,
    FixedSetting,
    current_settings,
    has_right_type,
    mode_names,
    mode_settings,
)

__all__ = [
    "FIXED_SETTINGS",
    "FixedSetting",
    "compiled_autograd_is_on",
    "copy_captured",
    "current_backend",
    "current_settings",
    "find_backend",
    "has_right_type",
    "mode_names",
    "mode_settings",
    "plain_function",
]
