"""The adapter to Inductor: the only package that touches its internals."""

from lowtide.lower.inductor.assemble import Assembled, Joint, UnboundedSizeError, assemble_program
from lowtide.lower.inductor.compile import Hooks, compile_with_inductor
from lowtide.lower.inductor.output_code import Artifact
from lowtide.lower.inductor.reader import UnsupportedGraphError

__all__ = [
    "Artifact",
    "Assembled",
    "Hooks",
    "Joint",
    "UnboundedSizeError",
    "UnsupportedGraphError",
    "assemble_program",
    "compile_with_inductor",
]
