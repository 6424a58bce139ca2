"""What can be wrong with a captured graph."""

from lowtide.errors import LowtideError


class UnsupportedGraphError(LowtideError):
    """A graph uses something that cannot be accounted for."""


class UnboundedSizeError(LowtideError):
    """A size depends on something that has no bound known before the program runs."""
