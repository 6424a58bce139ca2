"""The adapter to Inductor: the only package that touches its internals."""

from lowtide.lower.inductor.compile import compile_with_inductor
from lowtide.lower.inductor.output_code import Artifact
from lowtide.lower.joint import Assembled, Hooks, Joint, UnboundedSizeError, UnsupportedGraphError, assemble_program

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
