"""The verifier of programs: `verify_program` raises at the first defect it meets.

Stages, each in a file of its own: names, kinds and bindings (`verify_parts`), windows inside their buffers
(`verify_windows`), then one walk over the statements that keeps which values exist (`verify_flow`).
What it does not check: that a program computes what was asked for, and that code lines do what the
statement says.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowtide.ir.defects import Defect, VerificationError
from lowtide.ir.program import Program
from lowtide.ir.verify_flow import verify_flow
from lowtide.ir.verify_parts import verify_parts
from lowtide.ir.verify_windows import Undecided, verify_windows

__all__ = ["Defect", "Undecided", "VerificationError", "VerificationReport", "verify_program"]


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """What a sound program could not be shown to have.

    Attributes:
        undecided: Values whose end could be compared with that of their buffer neither way. They are let
            pass, and named here.
    """

    undecided: tuple[Undecided, ...]


def verify_program(program: Program) -> VerificationReport:
    """Check that a program is sound.

    Args:
        program: Any program.

    Returns:
        A report of what was let pass undecided.

    Raises:
        VerificationError: At the first defect; its text prints the guilty statement with its neighbours.

    Guarantee: sound for everything in `Defect` except the undecided windows.
    Cost: O(statements + accesses); one comparison per distinct (window, buffer size).
    """
    verify_parts(program)
    undecided = verify_windows(program)
    verify_flow(program)
    return VerificationReport(undecided)
