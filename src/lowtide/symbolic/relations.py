"""What the ranges and constraints of a scope mean for a proof.

Stages, once per scope:

1. An equality that has a variable with coefficient 1 or -1, alone and nowhere else in it, replaces that variable
   (reshape: s0 = 12*s1; n = batch*seq). A divisible variable becomes a multiple of a new one: s = 8*q.
2. Any other equality rewrites its leading monomial, up to a positive factor (2*s0 = 3*s1; batch*seq = x*y).
3. The ranges of replaced variables, and every upper bound, become facts: polynomials that are >= 0.
4. Facts narrow the ranges of the variables that are left (`tighten.py`).

Not handled: inequalities are not added to each other to find new replacements, and systems of equations are solved in
the order given only.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import gcd

from lowtide.symbolic.constraint import AtMost, Constraint, Divisible, Equal
from lowtide.symbolic.divide import floor_div_terms
from lowtide.symbolic.errors import ScopeError, UndefinedSizeError
from lowtide.symbolic.evaluate import Values
from lowtide.symbolic.interval import Box, Interval, bound_terms, lower_bound
from lowtide.symbolic.substitute import substitute_terms
from lowtide.symbolic.terms import (
    ONE,
    Atom,
    Monomial,
    Terms,
    add_terms,
    constant_terms,
    divide_monomial,
    evaluate_terms,
    is_constant,
    is_variable,
    mentions,
    monomial_key,
    multiply_terms,
    scale_terms,
    subtract_terms,
    variable_atom,
)
from lowtide.symbolic.tighten import tighten

REWRITE_LIMIT = 32


@dataclass(frozen=True, slots=True)
class Rewrite:
    """scale * lead == image, with scale >= 1: an equality used from left to right."""

    lead: Monomial
    scale: int
    image: Terms


@dataclass(frozen=True, slots=True)
class Relations:
    """A scope in the form that proofs use.

    Attributes:
        box: Ranges of the variables that are left, narrowed by the facts.
        replacements: What stands for the variables that are not left, over those that are.
        rewrites: Equalities that replace a monomial, over the variables that are left.
        facts: Polynomials over the variables that are left that are >= 0 at every admitted valuation.
        has_equalities: Whether `reduce_terms` can change anything.
    """

    box: Box
    replacements: Mapping[Atom, Terms]
    rewrites: tuple[Rewrite, ...]
    facts: tuple[Terms, ...]
    has_equalities: bool

    def reduce_terms(self, terms: Terms) -> Terms:
        """Return a polynomial with the sign of the given one at every admitted valuation, in fewer variables.

        Replacements are exact; a rewrite may multiply by a positive integer.
        """
        return self.rewrite(substitute_terms(terms, self.replacements))

    def rewrite(self, terms: Terms) -> Terms:
        """Return a positive multiple of the polynomial with leading monomials of equalities replaced."""
        if not self.rewrites:
            return terms
        for _ in range(REWRITE_LIMIT):
            step = _find_rewrite(terms, self.rewrites)
            if step is None:
                break
            rule, monomial, factor = step
            coefficient = terms[monomial]
            shared = gcd(coefficient, rule.scale)
            terms = scale_terms(terms, rule.scale // shared)
            terms = subtract_terms(terms, {monomial: terms[monomial]})
            terms = add_terms(terms, multiply_terms({factor: coefficient // shared}, rule.image))
        return terms

    def complete(self, values: Values) -> bool:
        """Add the values of the replaced variables to values of those that are left; say whether there are any."""
        try:
            for variable, image in self.replacements.items():
                values[variable] = evaluate_terms(image, values)
        except UndefinedSizeError:
            return False
        return True


def _find_rewrite(terms: Terms, rewrites: Iterable[Rewrite]) -> tuple[Rewrite, Monomial, Monomial] | None:
    for rule in rewrites:
        for monomial in terms:
            factor = divide_monomial(monomial, rule.lead)
            if factor is not None:
                return rule, monomial, factor
    return None


def derive_relations(ranges: Mapping[str, Interval], constraints: Iterable[Constraint], scope_text: str) -> Relations:
    """Return the relations of a scope.

    Raises:
        ScopeError: If the constraints contradict each other or the ranges.
    """
    derivation = _Derivation(ranges, scope_text)
    try:
        return derivation.run(list(constraints))
    except ZeroDivisionError:
        raise derivation.contradiction("a constraint that divides by zero at every valuation") from None


class _Derivation:
    """The state of one derivation."""

    def __init__(self, ranges: Mapping[str, Interval], scope_text: str) -> None:
        self.box = Box({variable_atom(name): interval for name, interval in ranges.items()})
        self.scope_text = scope_text
        self.replacements: dict[Atom, Terms] = {}
        self.rewrites: list[Rewrite] = []
        self.facts: list[Terms] = []

    def run(self, constraints: list[Constraint]) -> Relations:
        if not constraints:
            return Relations(self.box, {}, (), (), has_equalities=False)
        for constraint in constraints:
            if isinstance(constraint, Equal):
                self.add_equality(subtract_terms(constraint.left.terms, constraint.right.terms), constraint)
        for constraint in constraints:
            if isinstance(constraint, Divisible):
                self.add_divisible(constraint)
        self.facts += [subtract_terms(c.right.terms, c.left.terms) for c in constraints if isinstance(c, AtMost)]
        facts: list[Terms] = []
        for fact in self.facts:
            reduced = substitute_terms(fact, self.replacements)
            if is_constant(reduced):
                if reduced.get(ONE, 0) < 0:
                    raise self.contradiction("an upper bound that never holds")
            elif reduced not in facts:
                facts.append(reduced)
        box = tighten(self.box, facts)
        if box is None:
            raise self.contradiction("bounds that leave a variable no value")
        facts = [fact for fact in facts if (low := lower_bound(fact, box)) is None or low < 0]
        equalities = bool(self.replacements or self.rewrites)
        return Relations(box, self.replacements, tuple(self.rewrites), tuple(facts), has_equalities=equalities)

    def contradiction(self, found: str) -> ScopeError:
        return ScopeError("the scope admits no valuation", found, self.scope_text)

    def add_equality(self, difference: Terms, source: object) -> None:
        """Use difference == 0 as a replacement where a variable can be solved for, else as a rewrite."""
        difference = substitute_terms(difference, self.replacements)
        if is_constant(difference):
            if difference:
                raise self.contradiction(str(source))
            return
        common = gcd(*difference.values())
        difference = {monomial: value // common for monomial, value in difference.items()}
        variable = _solvable_variable(difference)
        if variable is not None:
            coefficient = difference[(variable,)]
            rest = subtract_terms(difference, {(variable,): coefficient})
            self.replace(variable, scale_terms(rest, -coefficient))
            return
        polynomial = [m for m in difference if m and all(is_variable(atom) for atom in m)]
        self.facts += [difference, scale_terms(difference, -1)]
        if not polynomial:
            return
        lead = max(polynomial, key=monomial_key)
        scale = difference[lead]
        image = scale_terms(subtract_terms(difference, {lead: scale}), -1 if scale > 0 else 1)
        self.rewrites.append(Rewrite(lead, abs(scale), image))

    def replace(self, variable: Atom, image: Terms) -> None:
        """Let an expression over other variables stand for a variable, and keep its range as facts."""
        low, high = self.box.pop(variable)
        self.box = self.box.only_variables()
        step: dict[Atom, Terms] = {variable: image}
        self.replacements = {name: substitute_terms(old, step) for name, old in self.replacements.items()}
        self.replacements[variable] = image
        if low is not None:
            self.facts.append(subtract_terms(image, constant_terms(low)))
        if high is not None:
            self.facts.append(subtract_terms(constant_terms(high), image))
        rules, self.rewrites = self.rewrites, []
        for rule in rules:
            equality = subtract_terms({rule.lead: rule.scale}, rule.image)
            self.add_equality(substitute_terms(equality, step), "an equality")

    def add_divisible(self, constraint: Divisible) -> None:
        """Write value == divisor*q with a new variable q where that can be solved, else with floor(value/divisor)."""
        divisor = constraint.divisor
        terms = substitute_terms(constraint.value.terms, self.replacements)
        residues = {m: (c + divisor // 2) % divisor - divisor // 2 for m, c in terms.items()}
        residues = {monomial: value for monomial, value in residues.items() if value}
        if is_constant(residues):
            if residues:
                raise self.contradiction(str(constraint))
            return
        variable = _solvable_variable(residues)
        if variable is None:
            variable = _only_variable(residues)
            if variable is None:
                quotient = floor_div_terms(terms, {ONE: divisor})
                self.add_equality(subtract_terms(terms, scale_terms(quotient, divisor)), constraint)
            else:
                self.replace_by_progression(variable, residues[(variable,)], residues.get(ONE, 0), divisor, constraint)
            return
        coefficient = residues[(variable,)]
        rest = scale_terms(subtract_terms(residues, {(variable,): coefficient}), -coefficient)
        self.replace_by_multiple(variable, divisor, rest)

    def replace_by_progression(
        self, variable: Atom, coefficient: int, offset: int, divisor: int, constraint: Divisible
    ) -> None:
        """Solve coefficient*variable + offset == 0 modulo the divisor."""
        common = gcd(coefficient, divisor)
        if offset % common:
            raise self.contradiction(str(constraint))
        period = divisor // common
        first = -(offset // common) * pow(coefficient // common, -1, period) % period if period > 1 else 0
        self.replace_by_multiple(variable, period, constant_terms(first))

    def replace_by_multiple(self, variable: Atom, period: int, rest: Terms) -> None:
        """Let period*q + rest stand for a variable, q being a new variable without bounds of its own."""
        if period == 1:
            return
        low, high = bound_terms(subtract_terms({(variable,): 1}, rest), self.box)
        fresh = variable_atom(f"({variable})/{period}")
        self.box[fresh] = (None if low is None else -(-low // period), None if high is None else high // period)
        self.replace(variable, add_terms({(fresh,): period}, rest))


def _solvable_variable(difference: Terms) -> Atom | None:
    """Return the variable to solve for: coefficient 1 or -1, alone in its term and nowhere else.

    Of several the last in the order of names, so that the answer does not depend on the order of terms.
    """
    candidates: list[Atom] = []
    for monomial, coefficient in difference.items():
        if len(monomial) == 1 and coefficient in (1, -1) and is_variable(monomial[0]):
            variable = monomial[0]
            if not mentions({m: c for m, c in difference.items() if m != monomial}, variable):
                candidates.append(variable)
    return max(candidates, default=None)


def _only_variable(terms: Terms) -> Atom | None:
    """Return the variable x of a polynomial c*x + k."""
    monomials = [monomial for monomial in terms if monomial]
    if len(monomials) == 1 and len(monomials[0]) == 1 and is_variable(monomials[0][0]):
        return monomials[0][0]
    return None
