"""The text form of a program, one fact per line: `render_program` prints it.

```
lowtide program 1
name tiny
level kernels
dim batch in [1, 64]
buffer x: input on cpu, bytes 16*batch
buffer y: intermediate on cpu, bytes 16*batch
value x in x: float32 [batch, 4] stride [4, 1] offset 0
value y in y: float32 [batch, 4] stride [4, 1] offset 0
inputs x
entry batch = x.shape[0]
forward relu calls aten.relu
  reads x
  defines y
  may_reuse y <- x
  | y = aten.relu(x)
output forward value y = "y"
```

Names that are not plain are written as JSON strings. Lines that start with `#` are comments and blank lines
mean nothing. The form is complete (`parse_program(render_program(p)) == p`) and stable: equal programs that
list their parts in the same order have the same text. Statements are printed in program order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from lowtide.ir.program import DimBinding, Output, Program, Statement
from lowtide.symbolic import AtMost, Constraint, Divisible, Equal, Expr, render

FORMAT_VERSION = 1
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.$]*\Z")


def render_program(program: Program) -> str:
    """Print a program in the text form.

    Returns:
        Text that `parse_program` turns back into an equal program. Ends with a newline.

    Cost: O(size of the text); each distinct expression is printed once.
    """
    printer = _Printer()
    lines = [f"lowtide program {FORMAT_VERSION}", f"name {quote(program.name)}", f"level {program.level}"]
    for dim, (low, high) in program.scope.ranges.items():
        lines.append(f"dim {quote(dim)} in [{low}, {'*' if high is None else high}]")
    lines += [f"called {quote(dim)} {quote(name)}" for dim, name in program.dim_names.items()]
    lines += [f"relation {printer.constraint(constraint)}" for constraint in program.scope.constraints]
    lines += [f"assume {quote_always(sentence)}" for sentence in program.assumptions]
    for buffer in program.buffers.values():
        size = printer.expr(buffer.size)
        lines.append(f"buffer {quote(buffer.name)}: {buffer.kind.value} on {quote(buffer.device)}, bytes {size}")
    for value in program.values.values():
        shape, stride = printer.exprs(value.shape), printer.exprs(value.stride)
        window = f"{quote(value.dtype)} {shape} stride {stride} offset {printer.expr(value.offset)}"
        lines.append(f"value {quote(value.name)} in {quote(value.buffer)}: {window}")
    if program.inputs:
        lines.append(f"inputs {quote_all(program.inputs)}")
    if program.tangents:
        lines.append(f"tangents {quote_all(program.tangents)}")
    lines += [_render_binding(binding) for binding in program.entry_dims]
    for statement in program.statements:
        lines += _statement_lines(statement, printer)
    lines += [_render_output("forward", output, printer) for output in program.forward_outputs]
    lines += [_render_output("backward", output, printer) for output in program.backward_outputs]
    return "\n".join(lines) + "\n"


def render_statement(statement: Statement) -> str:
    """Print one statement as it appears in the text form, without a newline at the end."""
    return "\n".join(_statement_lines(statement, _Printer()))


def quote(name: str) -> str:
    """Print a name: as it is when plain, otherwise as a JSON string."""
    return name if _PLAIN_NAME.match(name) else quote_always(name)


def quote_always(text: str) -> str:
    """Print any text as a JSON string."""
    return json.dumps(text, ensure_ascii=False)


def quote_all(names: Iterable[str]) -> str:
    """Print names in a row."""
    return ", ".join(quote(name) for name in names)


class _Printer:
    """Prints expressions, each distinct one once: a program repeats its few sizes thousands of times."""

    def __init__(self) -> None:
        self._texts: dict[Expr, str] = {}

    def expr(self, expr: Expr) -> str:
        text = self._texts.get(expr)
        if text is None:
            text = self._texts[expr] = render(expr)
        return text

    def exprs(self, exprs: Iterable[Expr]) -> str:
        return f"[{', '.join(self.expr(expr) for expr in exprs)}]"

    def constraint(self, constraint: Constraint) -> str:
        match constraint:
            case Equal(left, right):
                return f"{self.expr(left)} == {self.expr(right)}"
            case AtMost(left, right):
                return f"{self.expr(left)} <= {self.expr(right)}"
            case Divisible(expr, divisor):
                return f"{divisor} divides {self.expr(expr)}"


def _render_binding(binding: DimBinding) -> str:
    if binding.code:
        return f"entry {quote(binding.dim)} = code {quote_always(binding.code)}"
    axis = "" if binding.axis is None else f".shape[{binding.axis}]"
    # A source that could be read as something else is quoted: `x.shape` of `x.shape[0]`, or the word `code`.
    risky = "." in binding.source or binding.source == "code"
    source = quote_always(binding.source) if risky else quote(binding.source)
    return f"entry {quote(binding.dim)} = {source}{axis}"


def _render_output(phase: str, output: Output, printer: _Printer) -> str:
    what: list[str] = []
    if output.value is not None:
        what.append(f"value {quote(output.value)}")
    if output.dim is not None:
        what.append(f"dim {printer.expr(output.dim)}")
    return f"output {phase} {' '.join(what) or 'none'} = {quote_always(output.code)}"


def _statement_lines(statement: Statement, printer: _Printer) -> list[str]:
    lines = [f"{statement.phase.value} {quote(statement.name)} calls {quote(statement.op)}"]
    for keyword, names in (
        ("reads", statement.reads),
        ("writes", statement.writes),
        ("defines", statement.defines),
        ("defines_dims", statement.defines_dims),
        ("reads_dims", statement.reads_dims),
    ):
        if names:
            lines.append(f"  {keyword} {quote_all(names)}")
    for workspace in statement.workspace:
        size = "unknown" if workspace.size is None else f"bytes {printer.expr(workspace.size)}"
        lines.append(f"  workspace {quote(workspace.name)}: {size}")
    if statement.cost is not None:
        flops, moved = printer.expr(statement.cost.flops), printer.expr(statement.cost.bytes_moved)
        lines.append(f"  cost flops {flops}, bytes {moved}")
    if statement.flags:
        lines.append(f"  flags {', '.join(sorted(flag.value for flag in statement.flags))}")
    lines += [f"  may_reuse {quote(defined)} <- {quote(read)}" for defined, read in statement.may_reuse]
    if not statement.allocates:
        lines.append("  returns_its_own")
    for code in statement.code:
        raw = "\n" not in code and "\r" not in code
        lines.append(f"  | {code}" if raw else f"  code {quote_always(code)}")
    if statement.origin:
        lines.append(f"  origin {quote_always(statement.origin)}")
    return lines
