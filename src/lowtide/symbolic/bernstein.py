"""Polynomials in Bernstein form: on a box a polynomial lies between its smallest and largest coefficient.

A polynomial sum a_i t^i of degree n on 0 <= t <= w has the Bernstein coefficients
b_j = sum_{i<=j} C(j,i)/C(n,i) * a_i * w^i.
They are computed variable by variable, times a common positive integer so that all stays exact. A variable without
upper bound keeps its powers: all its coefficients must then be >= 0, which is the limit of the same condition.

Reference: R. T. Farouki, "The Bernstein polynomial basis: A centennial retrospective", CAGD 29, 2012, section 3.
"""

from bisect import bisect_left
from collections.abc import Mapping
from math import comb, lcm

from lowtide.symbolic.terms import Atom, Monomial, Terms

COEFFICIENT_LIMIT = 512


def bernstein_coefficients(shifted: Terms, widths: Mapping[Atom, int | None]) -> tuple[Terms, int] | None:
    """Return the Bernstein coefficients of a polynomial on a box.

    Args:
        shifted: A polynomial in distances t >= 0 (see `shift_to_corner`).
        widths: The largest distance of each atom; None where unbounded.

    Returns:
        The coefficients that are not zero, times a positive integer, and that integer. The key has each atom as often
        as its index. If none is negative the polynomial is >= 0 on the box. None where there would be too many.
    """
    degrees: dict[Atom, int] = {}
    for monomial in shifted:
        for atom in set(monomial):
            degrees[atom] = max(degrees.get(atom, 0), monomial.count(atom))
    count = 1
    for degree in degrees.values():
        count *= degree + 1
    if count > COEFFICIENT_LIMIT:
        return None
    scale = 1
    for atom, degree in degrees.items():
        width = widths[atom]
        if width is not None:
            shifted, factor = _transform(shifted, atom, degree, width)
            scale *= factor
    return shifted, scale


def _transform(terms: Terms, atom: Atom, degree: int, width: int) -> tuple[Terms, int]:
    scale = lcm(*(comb(degree, power) for power in range(degree + 1)))
    # Row i: the weight of a_i in b_j, for j from 0 to the degree.
    weights = [
        [comb(index, power) * scale // comb(degree, power) * width**power for index in range(degree + 1)]
        for power in range(degree + 1)
    ]
    transformed: Terms = {}
    for monomial, coefficient in terms.items():
        power = monomial.count(atom)
        start = bisect_left(monomial, atom)
        before, after = monomial[:start], monomial[start + power :]
        for index in range(power, degree + 1):
            key: Monomial = before + (atom,) * index + after
            transformed[key] = transformed.get(key, 0) + coefficient * weights[power][index]
    return {monomial: coefficient for monomial, coefficient in transformed.items() if coefficient}, scale
