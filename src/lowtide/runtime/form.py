"""The forms in which backward can run, by what it may write over."""

from enum import StrEnum


class BackwardForm(StrEnum):
    """What backward leaves as it is.

    Attributes:
        PLAIN: Nothing: it writes over saved tensors that die and over incoming gradients, as planned.
        SPARING: Incoming gradients, because somebody else holds one that the plan would write over.
        KEEPING: Incoming gradients and every saved tensor (`retain_graph`).
    """

    PLAIN = "plain"
    SPARING = "sparing"
    KEEPING = "keeping"
