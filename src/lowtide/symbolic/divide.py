"""Normal form of floor division.

The laws that are applied, for integers and a denominator that is not zero:

- floor((q*d + r)/d) = q + floor(r/d): multiples of the denominator leave, the remainder stays. Division
  with remainder over the monomial order makes r unique. With a constant c what stays has coefficients in [0, c).
- floor(k*n / (k*d)) = floor(n/d): common factors, integers and monomials, are cancelled. With a constant,
  floor((g*n + k)/(g*c)) = floor((n + floor(k/g))/c).
- floor((floor(x/a) + p)/c) = floor((x + a*p)/(a*c)) for constants a, c > 0.
- floor((n + k)/c) = -floor((-n + c-1-k)/c): of an expression and its mirror image, the one with the smaller
  residues is kept; ceil(s/2) thus has one form, s - floor(s/2).

Where a denominator is zero the size has no value: evaluating raises, and these laws say nothing about it.
"""

from math import gcd

from lowtide.symbolic.atoms import FloorDiv
from lowtide.symbolic.terms import (
    ONE,
    Monomial,
    Terms,
    add_terms,
    constant_terms,
    divide_monomial,
    is_constant,
    leading_monomial,
    monomial_key,
    scale_terms,
    subtract_terms,
)


def floor_div_terms(numerator: Terms, denominator: Terms) -> Terms:
    """Return floor(numerator / denominator) in normal form.

    Raises:
        ZeroDivisionError: If the denominator is the integer 0.
    """
    if not denominator:
        raise ZeroDivisionError("floor division of a size by zero")
    if is_constant(denominator):
        return _divide_by_constant(numerator, denominator[ONE])
    return _divide_by_polynomial(numerator, denominator)


def _divide_by_constant(numerator: Terms, divisor: int) -> Terms:
    if divisor < 0:
        numerator, divisor = scale_terms(numerator, -1), -divisor
    if divisor == 1:
        return numerator
    quotient: Terms = {}
    rest: Terms = {}
    for monomial, coefficient in numerator.items():
        whole, residue = divmod(coefficient, divisor)
        if whole:
            quotient[monomial] = whole
        if residue:
            rest[monomial] = residue
    constant = rest.pop(ONE, 0)
    if not rest:
        return quotient
    common = gcd(divisor, *rest.values())
    if common > 1:
        divisor //= common
        constant //= common
        rest = {monomial: residue // common for monomial, residue in rest.items()}
        # Residues below divisor*common stay below divisor; a divisor of 1 cannot appear, for they are not zero.
    merged = _merge_nested(rest, constant, divisor)
    if merged is not None:
        return add_terms(quotient, merged)
    monomials = sorted(rest, key=monomial_key)
    residues = [*(rest[monomial] for monomial in monomials), constant]
    mirrored = [*(divisor - rest[monomial] for monomial in monomials), divisor - 1 - constant]
    if mirrored < residues:
        numerator = dict(zip(monomials, mirrored, strict=False))
        atom = FloorDiv(add_terms(numerator, constant_terms(mirrored[-1])), {ONE: divisor})
        return add_terms(add_terms(quotient, dict.fromkeys(monomials, 1)), {(atom,): -1})
    atom = FloorDiv(add_terms(rest, constant_terms(constant)), {ONE: divisor})
    return add_terms(quotient, {(atom,): 1})


def _merge_nested(rest: Terms, constant: int, divisor: int) -> Terms | None:
    """Fold one floor division of the numerator into the outer one, where it occurs plus or minus once."""
    for monomial in sorted(rest, key=monomial_key):
        residue = rest[monomial]
        if len(monomial) != 1 or residue not in (1, divisor - 1):
            continue
        atom = monomial[0]
        if not isinstance(atom, FloorDiv) or not atom.constant_denominator:
            continue
        inner = atom.constant_denominator
        others = {other: value for other, value in rest.items() if other != monomial}
        others = scale_terms(add_terms(others, constant_terms(constant)), inner)
        plus = add_terms(others, atom.numerator)
        # -floor(x/a) = floor((a - 1 - x)/a), and the coefficient -1 stands for divisor - 1 once it is pulled out.
        minus = add_terms(subtract_terms(others, atom.numerator), constant_terms(inner - 1))
        if residue == 1 and (divisor > 2 or not _has_smaller_residues(minus, plus, inner * divisor)):
            return _divide_by_constant(plus, inner * divisor)
        return add_terms(_divide_by_constant(minus, inner * divisor), {monomial: 1})
    return None


def _has_smaller_residues(left: Terms, right: Terms, divisor: int) -> bool:
    """Compare what two numerators leave: of 3*h + 2 and h + 3 over 4, ceil(ceil(h/2)/2) becomes the second."""
    monomials = sorted({*left, *right}, key=monomial_key, reverse=True)
    return [left.get(m, 0) % divisor for m in monomials] < [right.get(m, 0) % divisor for m in monomials]


def _divide_by_polynomial(numerator: Terms, denominator: Terms) -> Terms:
    lead = leading_monomial(denominator)
    if denominator[lead] < 0:
        numerator, denominator = scale_terms(numerator, -1), scale_terms(denominator, -1)
    quotient, rest = _divide_with_remainder(numerator, denominator, lead)
    if not rest:
        return quotient
    factor = gcd(*rest.values(), *denominator.values())
    shared = _common_monomial([*rest, *denominator])
    if factor > 1 or shared:
        remainder = floor_div_terms(_cancel(rest, factor, shared), _cancel(denominator, factor, shared))
        return add_terms(quotient, remainder)
    return add_terms(quotient, {(FloorDiv(rest, denominator),): 1})


def _divide_with_remainder(numerator: Terms, denominator: Terms, lead: Monomial) -> tuple[Terms, Terms]:
    size = denominator[lead]
    quotient: Terms = {}
    rest = numerator
    while True:
        reducible = [m for m, c in rest.items() if not 0 <= c < size and divide_monomial(m, lead) is not None]
        if not reducible:
            return quotient, rest
        monomial = max(reducible, key=monomial_key)
        factor = divide_monomial(monomial, lead)
        assert factor is not None, "bug: reducible monomials are multiples of the leading one"
        times = rest[monomial] // size
        quotient = add_terms(quotient, {factor: times})
        rest = subtract_terms(rest, {tuple(sorted(factor + m)): times * c for m, c in denominator.items()})


def _common_monomial(monomials: list[Monomial]) -> Monomial:
    shared = list(monomials[0])
    for monomial in monomials[1:]:
        available = list(monomial)
        kept: list[str] = []
        for atom in list(shared):
            if atom in available:
                available.remove(atom)
                kept.append(atom)
            else:
                shared.remove(atom)
    return tuple(shared)


def _cancel(terms: Terms, factor: int, shared: Monomial) -> Terms:
    cancelled: Terms = {}
    for monomial, coefficient in terms.items():
        rest = divide_monomial(monomial, shared)
        assert rest is not None, "bug: the shared monomial divides every term"
        cancelled[rest] = coefficient // factor
    return cancelled
