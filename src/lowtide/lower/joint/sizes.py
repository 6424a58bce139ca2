"""Symbols of torch's graphs become dimension variables, and sizes become expressions over them.

A function of sizes that expressions cannot state becomes a bounded variable computed at entry. Symbols that
torch found equal to others while it lowered are written in those others.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import sympy
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from lowtide.ir import DimBinding
from lowtide.lower.joint.errors import UnboundedSizeError
from lowtide.lower.joint.printing import size_code
from lowtide.lower.joint.records import GraphRecord, TensorRecord
from lowtide.symbolic import AtMost, Expr, Scope, drop_implied
from lowtide.symbolic.from_sympy import from_sympy

_NO_LEAST = -(2**62)
"""Least value of a variable of which no least value is known; sizes of tensors are never such variables."""
THREADS = "threads"
"""The machine parameter of workspace formulas: worker threads that torch uses inside one operator."""


@dataclass(slots=True)
class SizeTable:
    """The dimension variables of one program while it is assembled.

    Attributes:
        where: What errors call the program.
        graphs: The lowered graphs.
        bindings: How variables get their integers at entry, in order.
        bound: Variables that have a binding.
        run_time: Variables that become known while the program runs.
        used: Variables that occur in a size.
        constraints: Relations that torch does not keep.
    """

    where: str
    graphs: tuple[GraphRecord, ...]
    bindings: list[DimBinding] = field(default_factory=list)
    bound: set[str] = field(default_factory=set)
    run_time: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    constraints: list[AtMost] = field(default_factory=list)
    unknown: dict[sympy.Expr, str] = field(default_factory=dict)
    unknown_ranges: dict[str, tuple[int | None, int | None]] = field(default_factory=dict)
    converted: dict[sympy.Expr, Expr] = field(default_factory=dict)
    replacements: dict[sympy.Symbol, sympy.Expr] = field(default_factory=dict)
    precomputed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Collect what the graphs found out about their symbols."""
        for graph in self.graphs:
            self.replacements |= {s: e for s, e in graph.replacements.items() if s not in e.free_symbols}

    def expr(self, value: sympy.Expr | int) -> Expr:
        """Convert a size; unknown functions become bounded variables computed at entry."""
        key = sympy.sympify(value)
        found = self.converted.get(key)
        if found is None:
            found = from_sympy(self._replaced(key), self._unknown)
            self.converted[key] = found
            self.used.update(found.dims)
        return found

    def _replaced(self, value: sympy.Expr) -> sympy.Expr:
        """The size with every symbol that lowering found equal to others written in those others.

        torch learns such equations while it lowers, so that sizes written down early may still have the symbol.
        """
        replaced: Any = value
        while not self.replacements.keys().isdisjoint(replaced.free_symbols):
            replaced = replaced.xreplace(self.replacements)
        return replaced

    def _unknown(self, value: sympy.Expr) -> str:
        if value in self.unknown:
            return self.unknown[value]
        symbols = {str(s) for s in value.free_symbols}
        if symbols & self.run_time or not symbols <= self.bound:
            raise UnboundedSizeError(
                "A size is a function that cannot be computed when the program is entered.",
                found=f"{value}, of {', '.join(sorted(symbols))}",
                where=self.where,
                fix="compute this size outside the compiled region, or give it bounds with torch._check.",
            )
        name = f"x{len(self.unknown)}"
        self.unknown[value] = name
        ranges: Any = {s: self._sympy_range(str(s)) for s in value.free_symbols}
        bound = bound_sympy(value, ranges)
        self.unknown_ranges[name] = (_integer(bound.lower), _integer(bound.upper))
        self.bindings.append(DimBinding(name, "", None, code=f"int({size_code(value)})"))
        self.bound.add(name)
        return name

    def _sympy_range(self, symbol: str) -> object:
        low, high = self._range(symbol)
        return ValueRanges(-int_oo if low is None else low, int_oo if high is None else high)

    def _range(self, symbol: str) -> tuple[int | None, int | None]:
        if symbol in self.unknown_ranges:
            return self.unknown_ranges[symbol]
        if symbol == THREADS:
            return (1, 1024)
        for graph in self.graphs:
            if symbol in graph.ranges:
                return graph.ranges[symbol]
        return (0, None)

    def scope(self) -> Scope:
        """The variables that were met, their ranges and the relations between them."""
        names = self.used | {b.dim for b in self.bindings} | self.run_time
        constraints = [*self.constraints, *self._guarded(names)]
        for constraint in constraints:
            names |= constraint.left.dims | constraint.right.dims
        ranges: dict[str, tuple[int, int | None]] = {}
        for name in sorted(names):
            low, high = self._range(name)
            ranges[name] = (_NO_LEAST if low is None else low, high)
        return Scope(ranges, drop_implied(ranges, constraints))

    def _guarded(self, names: AbstractSet[str]) -> list[AtMost]:
        """The relations between variables that torch checks before it calls the program.

        Guards of one variable are in its range already; others than inequalities, and those that need a function
        without an exact form, say nothing here.
        """
        found: dict[tuple[Expr, Expr], AtMost] = {}
        for guard in dict.fromkeys(guard for graph in self.graphs for guard in graph.guards):
            if not isinstance(guard, (sympy.Le, sympy.Lt, sympy.Ge, sympy.Gt)):
                continue
            sides: Any = (guard.lhs, guard.rhs) if isinstance(guard, (sympy.Le, sympy.Lt)) else (guard.rhs, guard.lhs)
            low, high = map(self._replaced, sides)
            symbols = {str(s) for s in low.free_symbols | high.free_symbols}
            if len(symbols) < 2 or not symbols <= names:
                continue
            strict = isinstance(guard, (sympy.Lt, sympy.Gt))
            try:
                relation = AtMost(from_sympy(low + int(strict), _no_name), from_sympy(high, _no_name))
            except ValueError:
                continue
            found[relation.left, relation.right] = relation
        return [*found.values()]

    def bind_tensor(self, tensor: TensorRecord) -> None:
        """Bind the variables that are an input's length, stride or offset."""
        for axis, extent in enumerate(tensor.shape):
            if isinstance(extent, sympy.Symbol):
                self.bind(DimBinding(str(extent), tensor.name, axis))
        for axis, step in enumerate(tensor.stride):
            if isinstance(step, sympy.Symbol):
                self.bind(DimBinding(str(step), "", None, code=f"{tensor.name}.stride({axis})"))
        if isinstance(tensor.offset, sympy.Symbol):
            self.bind(DimBinding(str(tensor.offset), "", None, code=f"{tensor.name}.storage_offset()"))

    def bind(self, binding: DimBinding) -> None:
        """Let a variable get its integer at entry, unless it has a binding already."""
        if binding.dim not in self.bound:
            self.bound.add(binding.dim)
            self.bindings.append(binding)

    def bind_precomputed(self, graph: GraphRecord) -> dict[str, str]:
        """Bind the names that a wrapper gives to expressions, one name per expression; returns the renaming."""
        mapping: dict[str, str] = {}
        for name, value in graph.precomputed.items():
            code = size_code(value)
            if code not in self.precomputed:
                joint_name = f"ps{len(self.precomputed)}"
                self.precomputed[code] = joint_name
                self.bind(DimBinding(joint_name, "", None, code=code))
                self.unknown_ranges[joint_name] = (None, None)
            mapping[name] = self.precomputed[code]
        return mapping


def _no_name(value: sympy.Expr) -> str:
    raise ValueError(f"no exact form of {value}")


def _integer(value: object) -> int | None:
    return int(value) if isinstance(value, sympy.Integer) else None
