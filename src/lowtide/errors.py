"""The errors that lowtide raises: one base class, four parts to every message.

Every message says what failed, what was found (names and values), where, and what to do. The text is
built from fields, so callers can branch on facts instead of parsing prose.
"""

import contextlib
from collections.abc import Generator


class LowtideError(Exception):
    """Base of every error that lowtide raises on purpose.

    Args:
        what: What failed, in one sentence.
        found: The names and values that made it fail.
        where: The statement, file or argument it concerns.
        fix: What the caller can do about it.
    """

    def __init__(self, what: str, *, found: str, where: str, fix: str) -> None:
        self.what = what
        self.found = found
        self.where = where
        self.fix = fix
        super().__init__(f"{what}\n  Found: {found}\n  Where: {where}\n  Try: {fix}")


class InternalError(LowtideError):
    """A fault of lowtide's own, met while a graph became a program: nothing has run."""


@contextlib.contextmanager
def own_faults(where: str) -> Generator[None]:
    """Turn an unexpected exception of lowtide's own code into an `InternalError`, which can be fallen back from.

    Args:
        where: The program it concerns.

    Raises:
        InternalError: From any exception but a `LowtideError`, which passes.
    """
    try:
        yield
    except LowtideError:
        raise
    except Exception as error:
        raise InternalError(
            "lowtide has a fault: it could not make a program of this graph.",
            found=f"{type(error).__name__}: {error}",
            where=where,
            fix="report this with the model; backend='inductor' runs it meanwhile.",
        ) from error
