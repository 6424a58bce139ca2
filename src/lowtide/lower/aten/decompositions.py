"""The table of decompositions of the aten lowering.

It is the one that torch's own `aot_eager_decomp_partition` backend uses, so that results agree with that backend to
the last bit. The table lives in Inductor; where it cannot be had, torch's core table takes its place.
"""

import importlib
from collections.abc import Callable
from typing import Any

from torch._decomp import core_aten_decompositions


def aten_decompositions() -> dict[Any, Callable[..., Any]]:
    """The table: operator -> function that computes it by other operators."""
    try:
        # Some of its functions need more of Inductor to be imported than the module that holds them.
        select = importlib.import_module("torch._inductor.compile_fx").select_decomp_table
    except (ImportError, AttributeError):
        return dict(core_aten_decompositions())
    return select()
