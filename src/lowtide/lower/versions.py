"""Which versions of torch the Inductor adapter has run with, and which lowering a version gets.

Inductor's internals move between versions, and a wrong reading of them would give wrong numbers. So the adapter is used
only with versions on which its tests have passed; any other version gets the aten lowering, which needs nothing of
Inductor.
"""

import functools
import re
import warnings
from typing import Literal

from lowtide.errors import LowtideError

Lowering = Literal["inductor", "aten"]
"""`inductor`: generated kernels. `aten`: torch's own operators, one call each."""

TESTED_WITH_INDUCTOR = ("2.13", "2.14")
"""Versions of torch, major and minor, on which the tests of the Inductor adapter have passed."""

_RELEASE = re.compile(r"(\d+\.\d+)\.\d+(\+\w+)?$")


class UnknownTorchVersionWarning(UserWarning):
    """The Inductor adapter has not been tested with this version of torch."""


class UnknownLoweringError(LowtideError):
    """An option names a lowering that does not exist."""


def choose_lowering(torch_version: str, requested: str | None = None) -> Lowering:
    """Choose how graphs are lowered.

    Args:
        torch_version: As in `torch.__version__`.
        requested: "inductor" or "aten" to have it whatever the version; None to choose by version.

    Returns:
        The lowering. An unknown version that was not asked for a lowering gets "aten", and one warning per process.

    Raises:
        UnknownLoweringError: If `requested` is no lowering.
    """
    if requested == "inductor" or requested == "aten":
        return requested
    if requested is not None:
        raise UnknownLoweringError(
            "There is no such lowering.",
            found=repr(requested),
            where="the option 'lowering'",
            fix="use 'inductor' or 'aten', or leave the option out.",
        )
    if is_tested(torch_version):
        return "inductor"
    _warn_once(torch_version)
    return "aten"


def is_tested(torch_version: str) -> bool:
    """Tell whether the Inductor adapter was tested with a release; development builds never count as tested."""
    release = _RELEASE.match(torch_version)
    return release is not None and release[1] in TESTED_WITH_INDUCTOR


@functools.cache
def _warn_once(torch_version: str) -> None:
    warnings.warn(
        f"lowtide has not been tested with the kernels of torch {torch_version} (tested: "
        f"{', '.join(TESTED_WITH_INDUCTOR)}). Programs run as plain aten calls: right, but slower than torch.compile. "
        "Options of Inductor have no effect then. "
        "Install a tested version, or pass options={'lowering': 'inductor'} to use the kernels all the same.",
        UnknownTorchVersionWarning,
        stacklevel=4,
    )
