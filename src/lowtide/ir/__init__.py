"""Programs: statements over values, values in buffers, sizes as expressions in bytes."""

from lowtide.ir.program import (
    Buffer as Buffer,
    BufferKind as BufferKind,
    Cost as Cost,
    DimBinding as DimBinding,
    Flag as Flag,
    Level as Level,
    Output as Output,
    Phase as Phase,
    Program as Program,
    Statement as Statement,
    Value as Value,
    Workspace as Workspace,
)
