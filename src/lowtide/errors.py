"""The errors that lowtide raises: one base class, four parts to every message.

Every message says what failed, what was found (names and values), where, and what to do. The text is
built from fields, so callers can branch on facts instead of parsing prose.
"""


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
