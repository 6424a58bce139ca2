"""lowtide: the peak memory of a PyTorch model at every batch shape, known from one compile.

The front door: names are re-exported here and nothing is decided here. Whatever needs torch is
loaded on first use, so that the parts that work without it (`lowtide.symbolic`, `lowtide.ir`) stay
importable without it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from lowtide.errors import LowtideError

if TYPE_CHECKING:
    from lowtide.explanation import Explanation, explain
    from lowtide.runtime.meter import MeasuredPeak, MemoryTimeline, measure_peak
    from lowtide.runtime.recorder import record_step
    from lowtide.runtime.registry import Fallback, FallbackWarning
    from lowtide.runtime.step import Step

__version__ = "0.1.0.dev0"

__all__ = [
    "Explanation",
    "Fallback",
    "FallbackWarning",
    "LowtideError",
    "MeasuredPeak",
    "MemoryTimeline",
    "Step",
    "__version__",
    "explain",
    "measure_peak",
    "record_step",
]

# Public names whose module imports torch, and the module each is loaded from when first asked for.
_LOADED_ON_FIRST_USE = {
    "Explanation": "lowtide.explanation",
    "explain": "lowtide.explanation",
    "MeasuredPeak": "lowtide.runtime.meter",
    "MemoryTimeline": "lowtide.runtime.meter",
    "measure_peak": "lowtide.runtime.meter",
    "Step": "lowtide.runtime.step",
    "record_step": "lowtide.runtime.recorder",
    "Fallback": "lowtide.runtime.registry",
    "FallbackWarning": "lowtide.runtime.registry",
}


def __getattr__(name: str) -> object:
    """Load a public name that needs torch when it is first asked for."""
    if name in _LOADED_ON_FIRST_USE:
        return getattr(import_module(_LOADED_ON_FIRST_USE[name]), name)
    raise AttributeError(f"module 'lowtide' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, those not loaded yet included."""
    return sorted(__all__)
