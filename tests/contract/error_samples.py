"""One sample of each error whose constructor takes more than texts, numbers and collections of them."""

from collections.abc import Callable
from typing import Any

from lowtide.ir import Defect, ProgramBuilder

SAMPLES: dict[str, Callable[[Any], Exception]] = {
    "VerificationError": lambda cls: cls(
        Defect.UNKNOWN_BUFFER,
        ProgramBuilder("p").build(),
        subject="value 'v'",
        found="value 'v' names buffer 'b'",
        fix="add the buffer",
    ),
}
