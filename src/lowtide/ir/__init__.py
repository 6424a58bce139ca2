"""Programs: statements over values, values in buffers, sizes as expressions in bytes."""

from lowtide.ir.builder import ProgramBuilder
from lowtide.ir.cursor import ProgramTextError
from lowtide.ir.dtypes import is_dtype, item_bytes
from lowtide.ir.edit import EditError, reorder, replace_buffers
from lowtide.ir.layout import contiguous_strides, extent, needed_dims, numel
from lowtide.ir.parse import parse_program
from lowtide.ir.program import (
    Buffer,
    BufferKind,
    Cost,
    DimBinding,
    Flag,
    Level,
    Output,
    Phase,
    Program,
    Statement,
    Value,
    Workspace,
)
from lowtide.ir.text import render_program, render_statement
from lowtide.ir.verify import Defect, Undecided, VerificationError, VerificationReport, verify_program

__all__ = [
    "Buffer",
    "BufferKind",
    "Cost",
    "Defect",
    "DimBinding",
    "EditError",
    "Flag",
    "Level",
    "Output",
    "Phase",
    "Program",
    "ProgramBuilder",
    "ProgramTextError",
    "Statement",
    "Undecided",
    "Value",
    "VerificationError",
    "VerificationReport",
    "Workspace",
    "contiguous_strides",
    "extent",
    "is_dtype",
    "item_bytes",
    "needed_dims",
    "numel",
    "parse_program",
    "render_program",
    "render_statement",
    "reorder",
    "replace_buffers",
    "verify_program",
]
