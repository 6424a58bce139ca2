"""Compare two sizes over all valuations that a scope admits.

Stages, for the difference d = a - b; each has its rule, and the first that decides ends the comparison:

1. The same normal form, or forms that differ by an integer (IDENTITY).
2. Equalities of the scope are substituted (SUBSTITUTION, where that settles it).
3. All coefficients have one sign and all atoms are >= 0 (LOWER_CORNER).
4. d is evaluated at a few admitted valuations, the corners of the scope. Two opposite signs are the answer (WITNESS);
   one sign says which of d >= 0 and d <= 0 is worth a proof.
5. Proof by `prove.py`, then with floors and maxima opened by `cases.py`.
6. More valuations, among them those at which a proof failed; then all values of a small box, or proofs that cut ranges
   into parts, with the facts narrowing each (`pieces.py`). Else UNKNOWN.

A verdict is proved, never guessed: valuations refute, they do not justify. Stages 1 to 4 need a few microseconds;
what comes after is remembered per scope.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, product
from operator import mul

from lowtide.symbolic.cases import has_cases, prove_by_cases
from lowtide.symbolic.climb import climb
from lowtide.symbolic.comparison import CompareTally, Comparison, Rule, Verdict
from lowtide.symbolic.errors import UndefinedSizeError
from lowtide.symbolic.evaluate import Values
from lowtide.symbolic.expression import Expr, terms_of
from lowtide.symbolic.interval import Box
from lowtide.symbolic.pieces import prove_by_pieces
from lowtide.symbolic.probes import Probe, clamp
from lowtide.symbolic.prove import Effort, prove_nonnegative
from lowtide.symbolic.scope import Scope
from lowtide.symbolic.terms import (
    ONE,
    Atom,
    Terms,
    dims_of,
    evaluate_terms,
    scale_terms,
    subtract_terms,
    variable_atom,
)

QUICK_LEAVES = 80
LEAF_LIMIT = 400
CUT_LIMIT = 160
ENUMERATION_LIMIT = 512
SUSPECT_LIMIT = 16
# How many answers that took a search one scope remembers.
MEMORY_LIMIT = 2**16

_IDENTICAL = Comparison(Verdict.EQUAL, Rule.IDENTITY)
_UNKNOWN = Comparison(Verdict.UNKNOWN, Rule.NONE)
_PROVED = {
    (verdict, rule): Comparison(verdict, rule)
    for verdict in (Verdict.EQUAL, Verdict.LESS_EQUAL, Verdict.GREATER_EQUAL)
    for rule in Rule
}


def compare(left: Expr | int, right: Expr | int, scope: Scope, *, tally: CompareTally | None = None) -> Comparison:
    """Compare two sizes over every valuation that the scope admits.

    Args:
        left: The size a.
        right: The size b, in the same unit.
        scope: The facts assumed; it must give every variable a range.
        tally: Where to count the answer, if anywhere.

    Returns:
        The verdict, the rule that decided, and for SHAPE_DEPENDENT a valuation on each side.

    Raises:
        MissingVariableError: If the scope does not know a variable that the answer depends on.
        ScopeError: If the constraints of the scope contradict each other.

    Guarantee: EQUAL, LESS_EQUAL and GREATER_EQUAL are proved in exact arithmetic; the witnesses of SHAPE_DEPENDENT
        were evaluated and are admitted. Incomplete: the answer may be UNKNOWN.
    Cost: a few microseconds where the signs at the corners or of the coefficients decide; mostly some
        milliseconds else, up to some tenths of a second.

    Example:
        >>> from lowtide.symbolic import Scope, compare, dim
        >>> compare(dim("s") ** 2, 1000000 * dim("s"), Scope({"s": (1, 4096)})).verdict
        <Verdict.LESS_EQUAL: 'at most: a <= b, proved'>
    """
    if left is right:
        result = _IDENTICAL
    else:
        difference = subtract_terms(
            left.terms if isinstance(left, Expr) else terms_of(left),
            right.terms if isinstance(right, Expr) else terms_of(right),
        )
        result = _decide(difference, scope) if difference else _IDENTICAL
    if tally is not None:
        tally.record(result)
    return result


def _decide(difference: Terms, scope: Scope) -> Comparison:
    relations = scope.relations
    easy = Rule.LOWER_CORNER
    if relations.has_equalities:
        try:
            reduced = relations.reduce_terms(difference)
        except ZeroDivisionError:
            return _UNKNOWN  # it has a value nowhere
        if not reduced:
            return _PROVED[Verdict.EQUAL, Rule.SUBSTITUTION]
        if reduced is not difference:
            easy = Rule.SUBSTITUTION
            difference = reduced
    if len(difference) == 1 and ONE in difference:
        rule = Rule.IDENTITY if easy is Rule.LOWER_CORNER else Rule.SUBSTITUTION
        return _PROVED[Verdict.GREATER_EQUAL if difference[ONE] > 0 else Verdict.LESS_EQUAL, rule]
    coefficients = difference.values()
    if next(iter(coefficients)) > 0:
        if min(coefficients) > 0 and _atoms_nonnegative(difference, relations.box):
            return _PROVED[Verdict.GREATER_EQUAL, easy]
    elif max(coefficients) < 0 and _atoms_nonnegative(difference, relations.box):
        return _PROVED[Verdict.LESS_EQUAL, easy]
    less, greater = _probe_corners(difference, scope)
    if less is not None and greater is not None:
        return _shape_dependent(less, greater)
    key = frozenset(difference.items())
    known = scope.decisions.get(key)
    if known is None:
        known = _Search(difference, scope, easy, less, greater).run()
        if len(scope.decisions) >= MEMORY_LIMIT:
            scope.decisions.clear()
        scope.decisions[key] = known
    return known


def _atoms_nonnegative(terms: Terms, box: Box) -> bool:
    for monomial in terms:
        for atom in monomial:
            low = box[atom][0]
            if low is None or low < 0:
                return False
    return True


def _probe_corners(difference: Terms, scope: Scope) -> tuple[Probe | None, Probe | None]:
    """Evaluate at the corners until both signs are seen; return a valuation with each."""
    less: Probe | None = None
    greater: Probe | None = None
    probes = scope.probes
    points: Iterable[Probe] = probes.corners
    coefficients = difference.values()
    while True:
        for point in points:
            try:
                value = sum(map(mul, coefficients, map(point.value_of, difference)))
            except KeyError:
                value = _first_value(difference, point)
            if value > 0:
                if less is not None:
                    return less, point
                greater = point
            elif value:
                if greater is not None:
                    return point, greater
                less = point
        if probes.corners_are_all or points is not probes.corners:
            return less, greater
        points = chain.from_iterable(map(probes.axis, sorted(set[Atom]().union(*difference))))


def _first_value(difference: Terms, point: Probe) -> int:
    """Return the value at a probe that has not seen all monomials; 0, which says nothing, where there is none."""
    try:
        point.learn(difference)
    except UndefinedSizeError:
        return 0
    return sum(map(mul, difference.values(), map(point.value_of, difference)))


def _shape_dependent(less: Probe, greater: Probe) -> Comparison:
    # Few pairs of probes decide most comparisons, and looking an answer up is cheaper than making it.
    answer = less.answers.get(greater)
    if answer is None:
        answer = Comparison(Verdict.SHAPE_DEPENDENT, Rule.WITNESS, less.valuation, greater.valuation)
        less.answers[greater] = answer
    return answer


class _Search:
    """The stages after the corners, for one difference."""

    def __init__(self, difference: Terms, scope: Scope, easy: Rule, less: Probe | None, greater: Probe | None) -> None:
        self.difference = difference
        self.scope = scope
        self.easy = easy
        self.less = less
        self.greater = greater
        self.suspects: list[dict[Atom, int]] = []

    def run(self) -> Comparison:
        # Cheap proofs come before many valuations, and those before proofs that cut and enumerate.
        return (
            self.prove(Effort(QUICK_LEAVES, 0))
            or self.probe_more()
            or self.prove(Effort(LEAF_LIMIT, CUT_LIMIT))
            or (self.probe_suspects() or _UNKNOWN)
        )

    def prove(self, effort: Effort) -> Comparison | None:
        """Try the directions that no valuation has refuted."""
        at_least = self.prove_sign(1, effort) if self.less is None else None
        at_most = self.prove_sign(-1, effort) if self.greater is None else None
        if at_least is not None and at_most is not None:
            return _PROVED[Verdict.EQUAL, at_most]
        if at_least is not None:
            return _PROVED[Verdict.GREATER_EQUAL, at_least]
        return None if at_most is None else _PROVED[Verdict.LESS_EQUAL, at_most]

    def prove_sign(self, sign: int, effort: Effort) -> Rule | None:
        relations = self.scope.relations
        claim = scale_terms(self.difference, sign)
        thorough = effort.cuts > 0
        met = len(effort.suspects)
        if thorough and self.enumerate(claim):
            return Rule.ENUMERATION
        opaque = has_cases(claim)
        # Cuts of the ranges help little while maxima are opaque.
        first = Effort(effort.leaves, 0, effort.suspects) if opaque else effort
        rule = prove_nonnegative(claim, relations.box, relations.facts, first)
        if rule is None and opaque and prove_by_cases(claim, relations.box, relations.facts, effort):
            rule = Rule.CASE_SPLIT
        if rule is None and thorough and prove_by_pieces(claim, relations.box, relations.facts, effort.suspects):
            rule = Rule.PIECES
        self.suspects += effort.suspects[met : met + SUSPECT_LIMIT]
        return self.easy if rule is Rule.LOWER_CORNER else rule

    def enumerate(self, claim: Terms) -> bool:
        """Try every value of the variables where there are few; valuations that break a fact do not count."""
        box = self.scope.relations.box
        names = [variable_atom(name) for name in sorted(dims_of(claim))]
        choices: list[range] = []
        count = 1
        for name in names:
            low, high = box[name]
            if low is None or high is None:
                return False
            choices.append(range(low, high + 1))
            count *= high + 1 - low
            if count > ENUMERATION_LIMIT:
                return False
        facts = [fact for fact in self.scope.relations.facts if dims_of(fact) <= set(names)]
        for chosen in product(*choices):
            values = Values(zip(names, chosen, strict=True))
            try:
                if evaluate_terms(claim, values) < 0 and all(evaluate_terms(fact, values) >= 0 for fact in facts):
                    self.suspects.append(dict(values))
                    return False
            except UndefinedSizeError:
                continue
        return True

    def probe_more(self) -> Comparison | None:
        """Look for the missing sign at valuations where a proof failed, then at many others."""
        return self.probe_suspects() or self.try_all(self.scope.probes.extra()) or self.try_all(self.climbed())

    def climbed(self) -> Iterator[Probe | None]:
        """Return valuations that a search from the corners found for a sign that is missing."""
        probes = self.scope.probes
        for sign, seen in ((1, self.greater), (-1, self.less)):
            if seen is None:
                for start in probes.corners[:2]:
                    found = climb(scale_terms(self.difference, sign), self.scope.relations, start.values)
                    if found is not None:
                        yield probes.admitted(found)

    def probe_suspects(self) -> Comparison | None:
        """Look for the missing sign at valuations where a proof failed."""
        suspects, self.suspects = self.suspects[:SUSPECT_LIMIT], []
        return self.try_all(map(self.complete, suspects))

    def complete(self, suspect: dict[Atom, int]) -> Probe | None:
        """Return the admitted valuation nearest to given values of some variables."""
        return self.scope.probes.complete(lambda name, interval: clamp(suspect.get(name, interval[0] or 0), interval))

    def try_all(self, points: Iterable[Probe | None]) -> Comparison | None:
        for point in points:
            if point is not None:
                self.try_at(point)
                if self.less is not None and self.greater is not None:
                    return _shape_dependent(self.less, self.greater)
        return None

    def try_at(self, point: Probe) -> None:
        """Record the sign at a valuation."""
        try:
            value = evaluate_terms(self.difference, point.values)
        except UndefinedSizeError:
            return
        if value > 0:
            self.greater = self.greater or point
        elif value < 0:
            self.less = self.less or point
