"""Valuations at which differences of sizes are tried: the corners of a scope.

A probe is admitted by the scope, so one where a < b is a witness by itself. Each keeps the values of floors and maxima
that were computed at it, so trying a polynomial at a probe is a few multiplications.
"""

from collections.abc import Callable, Iterable, Mapping
from random import Random
from types import MappingProxyType

from lowtide.symbolic.assign import Chooser, assign
from lowtide.symbolic.comparison import Comparison
from lowtide.symbolic.evaluate import Values
from lowtide.symbolic.interval import Interval
from lowtide.symbolic.relations import Relations
from lowtide.symbolic.terms import Atom, Compound, Monomial, Terms, evaluate_terms, is_variable, variable_atom

# Where an unbounded variable is "high": large enough that the leading terms of real sizes decide the sign.
FAR = 2**30
EXTRA_PROBES = 96
# With up to this many variables all corners are tried at once.
FEW_VARIABLES = 3
SEED = 20241216
# How many monomials one probe remembers.
MEMORY_LIMIT = 2**16


class Probe:
    """One admitted valuation.

    Attributes:
        values: Values of atoms there.
        valuation: The values of the variables of the scope.
        answers: The comparison of which this is the witness for a < b, by the witness for a > b.
        value_of: Returns the value of a monomial; KeyError where `learn` has not seen it. The sizes of a program share
            few monomials, so that a polynomial is evaluated with one look-up per term.
    """

    __slots__ = ("_known", "answers", "valuation", "value_of", "values")

    def __init__(self, values: Values, names: Iterable[str]) -> None:
        self.values = values
        self.valuation: Mapping[str, int] = MappingProxyType({name: values[name] for name in names})
        self.answers: dict[Probe, Comparison] = {}
        self._known: dict[Monomial, int] = {}
        self.value_of: Callable[[Monomial], int] = self._known.__getitem__

    def learn(self, terms: Terms) -> None:
        """Compute the values of the monomials of a polynomial.

        Raises:
            MissingVariableError: If the scope does not know a variable.
            UndefinedSizeError: If a denominator is zero there.
        """
        if len(self._known) >= MEMORY_LIMIT:
            self._known.clear()
        for monomial in terms:
            self._known[monomial] = evaluate_terms({monomial: 1}, self.values)


class Probes:
    """Probes of one scope, found on first use and kept.

    Args:
        relations: The relations of the scope.
        names: The variables of the scope.
        admits: The scope's own check; every probe passed it.
    """

    __slots__ = ("_admits", "_axes", "_extra", "_names", "_relations", "corners", "corners_are_all")

    def __init__(self, relations: Relations, names: Iterable[str], admits: Callable[[Values], bool]) -> None:
        self._names = tuple(names)
        self._relations = relations
        self._admits = admits
        self._axes: dict[str, tuple[Probe, ...]] = {}
        self._extra: tuple[Probe, ...] | None = None
        variables = [name for name in relations.box if is_variable(name)]
        #: Whether `corners` has the probes of every axis.
        self.corners_are_all = len(variables) <= FEW_VARIABLES
        #: All variables low, all high, and where there are few variables also the probes of every axis.
        self.corners: tuple[Probe, ...] = self._find([(choose_low, ()), (choose_high, ())])
        if self.corners_are_all:
            probes = [*self.corners, *(probe for name in sorted(variables) for probe in self.axis(name))]
            self.corners = tuple({tuple(probe.valuation.values()): probe for probe in probes}.values())

    def axis(self, atom: Atom) -> tuple[Probe, ...]:
        """Return the probes with one variable high and the others low, and the reverse.

        Of a floor or maximum these are the probes of all its variables.
        """
        known = self._axes.get(atom)
        if known is None:
            if isinstance(atom, Compound):
                known = tuple(probe for name in sorted(atom.dims) for probe in self.axis(variable_atom(name)))
            else:
                known = self._find_axis(atom)
            self._axes[atom] = known
        return known

    def extra(self) -> tuple[Probe, ...]:
        """Return more probes: all variables at the same scale, and a fixed pseudo-random set."""
        if self._extra is None:
            self._extra = self._find(_extra_choosers())
        return self._extra

    def complete(self, choose: Chooser) -> Probe | None:
        """Return the admitted valuation of a chooser, or None."""
        found = self._find([(choose, ())])
        return found[0] if found else None

    def admitted(self, values: Values) -> Probe | None:
        """Return a probe of given values of all variables, or None where the scope does not admit them."""
        return Probe(values, self._names) if self._admits(values) else None

    def _find_axis(self, variable: Atom) -> tuple[Probe, ...]:
        if variable not in self._relations.box:
            # A replaced variable: the probes of the others cover it.
            return ()

        def only_high(name: Atom, interval: Interval) -> int:
            return choose_high(name, interval) if name == variable else choose_low(name, interval)

        def only_low(name: Atom, interval: Interval) -> int:
            return choose_low(name, interval) if name == variable else choose_high(name, interval)

        return self._find([(only_high, (variable,)), (only_low, (variable,))])

    def _find(self, choosers: list[tuple[Chooser, tuple[Atom, ...]]]) -> tuple[Probe, ...]:
        found: list[Values] = []
        # Two choosers may meet at the same valuation where ranges are narrow.
        for choose, first in choosers:
            values = assign(self._relations, choose, first)
            if values is not None and values not in found and self._admits(values):
                found.append(values)
        return tuple(Probe(values, self._names) for values in found)


def choose_low(_: Atom, interval: Interval) -> int:
    """Choose the lower end of a range, a far value where there is none."""
    low, high = interval
    return low if low is not None else -FAR if high is None else min(-FAR, high)


def choose_high(_: Atom, interval: Interval) -> int:
    """Choose the upper end of a range, a far value where there is none."""
    low, high = interval
    return high if high is not None else FAR if low is None else max(FAR, low)


def _extra_choosers() -> list[tuple[Chooser, tuple[Atom, ...]]]:
    def at_scale(bits: int) -> Chooser:
        return lambda _, interval: clamp(2**bits + bits % 2, interval)

    rng = Random(SEED)
    choosers: list[tuple[Chooser, tuple[Atom, ...]]] = [(at_scale(bits), ()) for bits in range(14)]
    return choosers + [(_random_chooser(rng), ()) for _ in range(EXTRA_PROBES)]


def _random_chooser(rng: Random) -> Chooser:
    own = Random(rng.random())

    def choose(_: Atom, interval: Interval) -> int:
        low, high = interval
        base = -FAR if low is None else low
        span = 2**20 if high is None else high - base
        kind = own.random()
        if kind < 0.2 or span <= 0:
            return base
        if kind < 0.4:
            return base + span
        return base + min(span, own.randrange(2 ** own.randint(1, span.bit_length())))

    return choose


def clamp(value: int, interval: Interval) -> int:
    """Return the integer of a range that is nearest to a value."""
    low, high = interval
    if low is not None and value < low:
        return low
    return high if high is not None and value > high else value
