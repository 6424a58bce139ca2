"""What both lowerings share: records of graphs, the program made of them, stubs for AOTAutograd."""

from lowtide.lower.joint.assemble import Assembled, Joint, assemble_program
from lowtide.lower.joint.errors import UnboundedSizeError, UnsupportedGraphError
from lowtide.lower.joint.hints import canonical_hints
from lowtide.lower.joint.hooks import Hooks, LoadableProgram
from lowtide.lower.joint.numbers import (
    mark_numbers,
    numbers_passed_as_tensors,
    placeholder_positions,
    placeholder_values,
)
from lowtide.lower.joint.part import KernelSource
from lowtide.lower.joint.printing import size_code
from lowtide.lower.joint.records import (
    GraphRecord,
    InputRecord,
    LibraryCall,
    Operand,
    OutputRecord,
    StatementRecord,
    TensorRecord,
    bound_of,
    model_line,
)
from lowtide.lower.joint.rename import identifiers, rename_identifiers
from lowtide.lower.joint.stubs import (
    BACKWARD_KEY,
    FORWARD_KEY,
    Handle,
    compile_title,
    compiled_forward,
    make_stubs,
    output_node,
    output_values,
    saved_placeholders,
    shape_env_of,
    take_state,
)

__all__ = [
    "BACKWARD_KEY",
    "FORWARD_KEY",
    "Assembled",
    "GraphRecord",
    "Handle",
    "Hooks",
    "InputRecord",
    "Joint",
    "KernelSource",
    "LibraryCall",
    "LoadableProgram",
    "Operand",
    "OutputRecord",
    "StatementRecord",
    "TensorRecord",
    "UnboundedSizeError",
    "UnsupportedGraphError",
    "assemble_program",
    "bound_of",
    "canonical_hints",
    "compile_title",
    "compiled_forward",
    "identifiers",
    "make_stubs",
    "mark_numbers",
    "model_line",
    "numbers_passed_as_tensors",
    "output_node",
    "output_values",
    "placeholder_positions",
    "placeholder_values",
    "rename_identifiers",
    "saved_placeholders",
    "shape_env_of",
    "size_code",
    "take_state",
]
