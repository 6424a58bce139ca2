"""What a compiled model will take, before it runs: `lowtide.explain(compiled)`.

The facts come from the programs that torch.compile made with the lowtide backend: the peak as a formula in
named dimensions, what is live there at given sizes, and what was assumed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lowtide.analysis import MemoryProfile, PeakFact, memory_profile
from lowtide.capture import find_backend
from lowtide.errors import LowtideError
from lowtide.ir import Program, Statement
from lowtide.runtime.probe import measure_unknown_workspace
from lowtide.runtime.registry import Fallback, compiled_programs
from lowtide.runtime.step import Code, MissingSizeError, SizeError, check_sizes, size_deriver, size_dims
from lowtide.schedule import scalar_tangents
from lowtide.symbolic import Expr, const, dim, minimum, render, substitute

_UNKNOWN = "no formula; measured where the call can run alone"


class NothingCompiledError(LowtideError):
    """There is no program to explain."""


@dataclass(frozen=True, slots=True)
class PeakTerm:
    """One of the footprints that the peak of an order is the largest of.

    Attributes:
        order: Which of the kept orders.
        statement: Name of the statement that runs then.
        op: What it calls.
        origin: The line of the model it comes from; empty when not known.
        formula: Its footprint in bytes, in named dimensions, workspace by name.
        workspace: Name -> formula of each workspace that `formula` names, or that it has none.
    """

    order: int
    statement: str
    op: str
    origin: str
    formula: str
    workspace: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ProgramExplanation:
    """One program of a compiled model.

    Attributes:
        name: Name of the program.
        kind: `training` or `inference`.
        dimensions: Names of the sizes that the caller chooses.
        terms: The peak of each order is the largest of its terms, at every size of the scope.
        assumptions: What the prediction takes for granted.
        program: The program itself, as it runs in the first order.
        orders: The program in each order that was kept; the one with the least peak at the sizes of a call runs.
        code: What runs the orders; None for a program that is explained without kernels.
        kept_apart: How many pairs of loops could have been one kernel and were not, to spare memory.
    """

    name: str
    kind: str
    dimensions: tuple[str, ...]
    terms: tuple[PeakTerm, ...]
    assumptions: tuple[str, ...]
    program: Program
    orders: tuple[Program, ...] = field(repr=False)
    code: Code | None = field(default=None, repr=False)
    kept_apart: int = 0

    @property
    def captured(self) -> Program:
        """The program as it was captured, before orders and storage reuse were chosen."""
        return self.program if self.code is None else self.code.captured

    @property
    def peak_expression(self) -> Expr:
        """The predicted peak in bytes for every size in the scope, in the program's own variables.

        Exact, but for workspaces without a formula, which `assumptions` names and this leaves out.
        """
        return minimum(*(_profile(order).peak for order in self.orders))

    @property
    def peak(self) -> str:
        """The predicted peak in bytes as a formula in named dimensions, for every size of the scope.

        Exact; a workspace without a formula is in it by name.
        """
        orders = [
            _call_of("max", [term.formula for term in self.terms if term.order == order])
            for order in range(len(self.orders))
        ]
        return _call_of("min", orders)

    def peak_at(self, **sizes: int) -> PeakFact:
        """Find the predicted peak at given sizes, the statement that has it and the buffers live there.

        Args:
            **sizes: Every dimension by name; `threads` is this machine's unless given.

        Raises:
            MissingSizeError: If a dimension is left out.
            SizeError: If a name is not one of the program's, or a size lies outside of the scope.

        Guarantee: exact, but for workspaces without a formula. Where such a call can run alone it is measured so, on
            zeros, once per sizes, and may differ where it depends on values; the answer names these under `measured`.
            Those that cannot, and all of them without `code`, come on top; it names them under `left_out`.
        """
        valuation = _valuation(self.program, sizes)
        if self.code is None:
            return min((_profile(order).peak_at(valuation) for order in self.orders), key=lambda fact: fact.bytes)
        profile = _profile(self.code.program_at(valuation))
        everything = range(len(self.program.statements))
        return profile.peak_at(valuation, measure_unknown_workspace(profile, self.code.probe, valuation, everything))

    def __str__(self) -> str:
        """A few lines for people."""
        lines = [f"{self.name} ({self.kind}, {len(self.program.statements)} statements)"]
        lines.append(f"  dimensions: {', '.join(self.dimensions) or 'none'}")
        if len(self.orders) > 1:
            lines.append(f"  {len(self.orders)} orders; the one with the least peak at the sizes of a call runs")
        if self.kept_apart:
            lines.append(f"  {self.kept_apart} pairs of loops kept apart: as one kernel they would need more at once")
        for term in self.terms:
            where = f" at {term.origin}" if term.origin else ""
            where += f" (order {term.order})" if len(self.orders) > 1 else ""
            lines.append(f"  peak candidate: {term.formula} bytes, in {term.statement} {term.op[:60]}{where}")
            lines.extend(f"    {name} = {formula}" for name, formula in term.workspace.items())
        lines.extend(f"  assumed: {assumption}" for assumption in self.assumptions)
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Explanation:
    """What `explain` found.

    Attributes:
        programs: One entry per program, oldest first.
        fallbacks: The graphs that run on torch's own path, of which nothing is promised, and why.
    """

    programs: tuple[ProgramExplanation, ...]
    fallbacks: tuple[Fallback, ...] = ()

    @property
    def peak(self) -> str:
        """The formula of the only training program, or of the only program."""
        return self._main().peak

    def peak_at(self, **sizes: int) -> PeakFact:
        """The predicted peak of the only training program, or of the only program; see `ProgramExplanation`."""
        return self._main().peak_at(**sizes)

    def _main(self) -> ProgramExplanation:
        training = [p for p in self.programs if p.kind == "training"]
        chosen = training or list(self.programs)
        if len(chosen) != 1:
            raise LowtideError(
                "One formula was asked for, but the model does not run as one program.",
                found=f"programs {', '.join(p.name for p in chosen) or 'none'}; fallbacks {len(self.fallbacks)}",
                where="lowtide.explain(...)",
                fix="look at .programs and .fallbacks one by one, or record a whole step with lowtide.record_step()",
            )
        return chosen[0]

    def __str__(self) -> str:
        """All programs, for people."""
        parts = [str(program) for program in self.programs]
        parts += [f"{fallback.title} (on torch's own path)\n  {fallback.reason}" for fallback in self.fallbacks]
        return "\n".join(parts)


def explain(compiled: Any) -> Explanation:
    """Explain the memory of a model compiled with `torch.compile(model, backend="lowtide")`.

    Args:
        compiled: What torch.compile returned, or a module after `module.compile(backend="lowtide")`. It must
            have been called once: torch compiles at the first call.

    Returns:
        One explanation per program compiled so far, and the graphs that lowtide does not run.

    Raises:
        NothingCompiledError: If `compiled` was not made by torch.compile with this backend, or was not called yet.

    Cost: a profile of each order of each program.
    """
    backend = find_backend(compiled)
    programs = () if backend is None else compiled_programs.programs_of(backend)
    fallbacks = () if backend is None else compiled_programs.fallbacks_of(backend)
    if not programs and not fallbacks:
        raise NothingCompiledError(
            "There is no program to explain.",
            found=f"a {type(compiled).__name__}, {'not compiled' if backend is None else 'without programs'}",
            where="lowtide.explain(...)",
            fix='call the model once after torch.compile(model, backend="lowtide", dynamic=True)',
        )
    explained = (
        explain_program(*(variant.program for variant in e.variants), code=e, kept_apart=e.kept_apart) for e in programs
    )
    return Explanation(tuple(explained), fallbacks)


def explain_program(
    program: Program, *others: Program, code: Code | None = None, kept_apart: int = 0
) -> ProgramExplanation:
    """Explain one program, given in each of its orders; `code` chooses among them and measures statements."""
    entry = [b.dim for b in program.entry_dims if not b.code]
    sized = size_dims(program)
    shown = [d for d in (*entry, *sorted(program.run_time_dims)) if d in sized]
    return ProgramExplanation(
        name=program.name,
        kind="training" if program.backward_outputs else "inference",
        dimensions=tuple(program.dim_names.get(d, d) for d in shown),
        terms=tuple(term for index, order in enumerate((program, *others)) for term in _peak_terms(index, order)),
        assumptions=program.assumptions + _standing_assumptions((program, *others)),
        program=program,
        orders=(program, *others),
        code=code,
        kept_apart=kept_apart,
    )


def _profile(program: Program) -> MemoryProfile:
    return memory_profile(program, tangents_held=scalar_tangents(program))


def _standing_assumptions(orders: Sequence[Program]) -> tuple[str, ...]:
    if not orders[0].backward_outputs:
        return ("outputs are held by the caller",)
    standing = (
        "forward outputs are held by the caller until backward is over",
        "the gradient of a scalar output is held until backward is over, other tangents until their last use",
        "gradients are new tensors, not added to existing ones",
    )
    if not any(order.tangents_taken for order in orders):
        return standing
    return (*standing, "nobody else holds the gradients that arrive in backward; held ones are not written over")


def _valuation(program: Program, sizes: Mapping[str, int]) -> dict[str, int]:
    known: dict[str, int] = {}
    missing: list[str] = []
    sized = size_dims(program)
    names = {program.dim_names.get(d, d) for d in program.scope.ranges}
    if strange := sorted(sizes.keys() - names):
        raise SizeError(
            "A size was given for a dimension that the program does not have.",
            found=", ".join(strange),
            where=f"program {program.name}",
            fix=f"its dimensions are {', '.join(sorted(names))}",
        )
    for variable in [b.dim for b in program.entry_dims] + sorted(program.run_time_dims):
        name = program.dim_names.get(variable, variable)
        if name in sizes:
            known[variable] = sizes[name]
        elif variable in sized and not any(b.dim == variable and b.code for b in program.entry_dims):
            missing.append(name)
    if missing:
        raise MissingSizeError(
            "A prediction needs the size of every dimension.",
            found=f"no size for {', '.join(sorted(set(missing)))}; given: {', '.join(sizes) or 'none'}",
            where=f"program {program.name}",
            fix="pass each of them by name, for example peak_at(batch=8, sequence=512)",
        )
    valuation = size_deriver(program)(known)
    check_sizes(program, valuation)
    return valuation


def _call_of(function: str, formulas: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(formulas))
    return distinct[0] if len(distinct) == 1 else f"{function}({', '.join(distinct)})"


def _peak_terms(order: int, program: Program) -> tuple[PeakTerm, ...]:
    """The steps of which one has the largest footprint at every size of the scope."""
    profile = _profile(program)
    unknown = {statement for statement, _ in profile.unknown_workspace}
    steps = dict.fromkeys(profile.peak_steps)
    # A workspace of unknown size may make any of these the peak.
    steps.update(dict.fromkeys(s for s, n in enumerate(profile.order) if program.statements[n].name in unknown))
    return tuple(
        _term(order, program, profile.footprint(step), program.statements[profile.order[step]]) for step in steps
    )


def _term(order: int, program: Program, footprint: Expr, statement: Statement) -> PeakTerm:
    names = {variable: dim(name) for variable, name in program.dim_names.items()}
    known = {_bracketed(w.name): w.size for w in statement.workspace if w.size is not None}
    unknown = {_bracketed(w.name): _UNKNOWN for w in statement.workspace if w.size is None}
    rest = footprint - sum(known.values(), start=const(0))
    formulas = {name: f"{render(substitute(size, names))} bytes" for name, size in known.items()}
    return PeakTerm(
        order=order,
        statement=statement.name,
        op=statement.op,
        origin=statement.origin,
        formula=" + ".join([render(substitute(rest, names)), *known, *unknown]),
        workspace={**formulas, **unknown},
    )


def _bracketed(workspace: str) -> str:
    return f"[{workspace.replace(' ', '_')}]"
