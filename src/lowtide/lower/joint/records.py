"""What one lowered graph consists of, as plain records: the adapter's output, before it becomes a Program.

Sizes are still sympy expressions in the torch graph's own symbols; names are still those of the generated
wrapper. `assemble.py` turns one or two of these into a `Program`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sympy


@dataclass(frozen=True, slots=True)
class TensorRecord:
    """A named tensor of the wrapper: where its elements lie and how many bytes its storage takes."""

    name: str
    dtype: str
    shape: tuple[sympy.Expr, ...]
    stride: tuple[sympy.Expr, ...]
    offset: sympy.Expr
    size_bytes: sympy.Expr
    device: str


@dataclass(frozen=True, slots=True)
class Operand:
    """One argument of a library call: a tensor's metadata, or a plain value."""

    tensor: TensorRecord | None
    value: Any = None


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """The operator behind a call that Inductor did not generate, with its arguments in schema order."""

    operator: str
    operands: tuple[tuple[str, Operand], ...]


@dataclass(slots=True)
class StatementRecord:
    """One step of the wrapper.

    Attributes:
        op: Kernel or operator name.
        code: Python lines of the call, without allocation or release.
        reads: Names read.
        writes: Names changed in place; a name still waiting for its allocation is born here instead.
        defines: Tensors that the call itself returns.
        views: Defined name -> name whose storage it shares.
        temporaries: Names that the code uses for itself and deletes again.
        symbols: Integers that come to be known here (sizes known only at run time).
        may_reuse: (born name, read name) pairs whose storage the kernel may share.
        call: The library operator, when there is one.
        workspace: (name, bytes) known from the wrapper itself.
        random: Draws random numbers.
        side_effect: Must keep its place among statements with effects.
        origin: Source line of the model.
    """

    op: str
    code: tuple[str, ...]
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    defines: tuple[TensorRecord, ...] = ()
    views: Mapping[str, str] = field(default_factory=dict)
    temporaries: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    may_reuse: tuple[tuple[str, str], ...] = ()
    call: LibraryCall | None = None
    workspace: tuple[tuple[str, sympy.Expr], ...] = ()
    random: bool = False
    side_effect: bool = False
    origin: str = ""


@dataclass(frozen=True, slots=True)
class InputRecord:
    """A graph input: a tensor, an integer (`symbol`), or something opaque (both None).

    A tensor that is `made_for_call` holds a plain number of the model, wrapped anew by dynamo in each call.
    """

    name: str
    tensor: TensorRecord | None = None
    symbol: sympy.Expr | None = None
    made_for_call: bool = False


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """A graph output: the Python expression that makes it, the tensor name it reads, and what it looks like."""

    code: str
    reads: tuple[str, ...]
    integer: sympy.Expr | None = None
    is_tensor: bool = False
    tensor: TensorRecord | None = None


@dataclass(slots=True)
class GraphRecord:
    """One graph as Inductor lowered it.

    Attributes:
        inputs: In call order.
        statements: In wrapper order.
        allocations: Tensors that the wrapper allocates before their first writer.
        outputs: In graph order.
        constants: Tensors the module holds; live before and after every call.
        precomputed: Names the wrapper gives to size expressions.
        ranges: Symbol name -> inclusive bounds (None: unbounded).
        replacements: Symbols that were found equal to an expression of others, at any time during lowering.
        sources: Symbol name -> where dynamo found it, e.g. ``L['x'].size()[0]``.
        guards: What must hold of the symbols for the compiled code to be called at all.
        output_strides: Per output, its strides, for restriding the backward's inputs.
        module: The loaded module: its namespace has the kernels.
        source: That module's text.
        kept_apart: Pairs of loops that could have been one kernel and were not, to spare memory; by their names.
    """

    inputs: list[InputRecord]
    statements: list[StatementRecord]
    allocations: dict[str, TensorRecord]
    outputs: list[OutputRecord]
    constants: dict[str, TensorRecord]
    precomputed: dict[str, sympy.Expr]
    ranges: dict[str, tuple[int | None, int | None]]
    sources: dict[str, str]
    replacements: dict[sympy.Symbol, sympy.Expr]
    output_strides: list[tuple[sympy.Expr, ...] | None]
    guards: tuple[sympy.Basic, ...] = ()
    module: dict[str, Any] = field(default_factory=dict)
    source: str = ""
    kept_apart: tuple[tuple[str, str], ...] = ()


def bound_of(value: Any) -> int | None:
    """A bound of torch's as an integer, or None for no bound."""
    # torch's symbolic infinity is no number of ours; sys.maxsize - 1 is its stand-in in some ranges.
    if not getattr(value, "is_Integer", False):
        return None
    return int(value) if abs(int(value)) < 2**62 else None


def model_line(origins: Iterable[Any]) -> str:
    """The innermost line of the user's model that led to these fx nodes."""
    for origin in origins:
        trace = origin.meta.get("stack_trace") if hasattr(origin, "meta") else None
        if not trace:
            continue
        frames = re.findall(r'File "([^"]+)", line (\d+)', trace)
        if frames:
            path, number = frames[-1]
            return f"{path.rsplit('/', 1)[-1]}:{number}"
    return ""
