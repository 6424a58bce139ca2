"""lowtide: a memory limit in bytes that holds for every batch shape, from one compile.

The front door: names are re-exported here and nothing is decided here. Whatever needs torch is
loaded on first use, so that the parts that work without it (`lowtide.symbolic`, `lowtide.ir`) stay
importable without it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from lowtide.errors import LowtideError

if TYPE_CHECKING:
    from lowtide.runtime.meter import MeasuredPeak, MemoryTimeline, measure_peak

__version__ = "0.1.0.dev0"

__all__ = [
    "LowtideError",
    "MeasuredPeak",
    "MemoryTimeline",
    "__version__",
    "measure_peak",
]

# Public names whose module imports torch, and the module each is loaded from when first asked for.
_LOADED_ON_FIRST_USE = {
    "MeasuredPeak": "lowtide.runtime.meter",
    "MemoryTimeline": "lowtide.runtime.meter",
    "measure_peak": "lowtide.runtime.meter",
}


def __getattr__(name: str) -> object:
    """Load a public name that needs torch when it is first asked for."""
    if name in _LOADED_ON_FIRST_USE:
        return getattr(import_module(_LOADED_ON_FIRST_USE[name]), name)
    raise AttributeError(f"module 'lowtide' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, those not loaded yet included."""
    return sorted(__all__)
