"""Normal form of the maximum.

The laws that are applied:

- max(a + t, b + t) = t + max(a, b): of every monomial the smallest coefficient among the arguments leaves, so
  what stays has coefficients >= 0 and no common part. min(a, b) + max(a, b) = a + b then holds by itself.
- max(k*a, k*b) = k*max(a, b) for the greatest common divisor k of all coefficients.
- max(max(a, b), c) = max(a, b, c), also under a common part and a positive factor.
- of arguments that differ by an integer the larger one stays.

No argument is dropped because of ranges: those belong to a scope, and `compare` uses them.
"""

from collections.abc import Iterable
from itertools import product
from math import gcd

from lowtide.symbolic.atoms import Max
from lowtide.symbolic.terms import (
    ONE,
    Terms,
    add_terms,
    constant_terms,
    render_terms,
    scale_terms,
    subtract_terms,
    sum_terms,
)

# Opening nested maxima multiplies arguments; beyond this many an argument keeps its inner maxima as they are.
FLATTEN_LIMIT = 256


def maximum_terms(arguments: Iterable[Terms]) -> Terms:
    """Return the maximum of one or more polynomials in normal form.

    Cost: linear in the total number of terms, apart from the opening of nested maxima.
    """
    distinct = _keep_largest(list(arguments))
    if not distinct:
        raise ValueError("maximum needs at least one argument")
    if len(distinct) == 1:
        return distinct[0]
    outside, distinct = _pull_common_part(distinct)
    if any(_positive_maxima(argument) for argument in distinct):
        distinct = _keep_largest([piece for argument in distinct for piece in _open(argument)])
        if len(distinct) == 1:
            return add_terms(outside, distinct[0])
        more, distinct = _pull_common_part(distinct)
        outside = add_terms(outside, more)
    factor = gcd(*(coefficient for argument in distinct for coefficient in argument.values()))
    if factor > 1:
        distinct = [{m: c // factor for m, c in argument.items()} for argument in distinct]
    return add_terms(outside, {(Max(tuple(sorted(distinct, key=_argument_key))),): factor})


def _argument_key(argument: Terms) -> tuple[int, str]:
    degree = max((len(monomial) for monomial in argument), default=0)
    return -degree, render_terms(argument)


def _keep_largest(arguments: list[Terms]) -> list[Terms]:
    """Drop duplicates, and of arguments that differ by an integer keep the largest."""
    if len(arguments) < 2:
        return arguments
    constants: dict[frozenset[tuple[object, int]], int] = {}
    bodies: dict[frozenset[tuple[object, int]], Terms] = {}
    for argument in arguments:
        body = {monomial: value for monomial, value in argument.items() if monomial}
        key = frozenset[tuple[object, int]](body.items())
        constant = argument.get(ONE, 0)
        constants[key] = max(constants.get(key, constant), constant)
        bodies[key] = body
    return [add_terms(body, constant_terms(constants[key])) for key, body in bodies.items()]


def _pull_common_part(arguments: list[Terms]) -> tuple[Terms, list[Terms]]:
    common: Terms = {}
    for monomial in {monomial for argument in arguments for monomial in argument}:
        smallest = min(argument.get(monomial, 0) for argument in arguments)
        if smallest:
            common[monomial] = smallest
    if not common:
        return common, arguments
    return common, [subtract_terms(argument, common) for argument in arguments]


def _positive_maxima(argument: Terms) -> list[Max]:
    found: list[Max] = []
    for monomial, coefficient in argument.items():
        if len(monomial) == 1 and coefficient > 0:
            atom = monomial[0]
            if isinstance(atom, Max):
                found.append(atom)
    return found


def _open(argument: Terms) -> list[Terms]:
    """Return arguments without a maximum of their own whose maximum is the argument."""
    maxima = _positive_maxima(argument)
    count = 1
    for atom in maxima:
        count *= len(atom.arguments)
    if not maxima or count > FLATTEN_LIMIT:
        return [argument]
    rest = {m: c for m, c in argument.items() if len(m) != 1 or m[0] not in maxima}
    choices = [[scale_terms(piece, argument[(atom,)]) for piece in atom.arguments] for atom in maxima]
    return [sum_terms([rest, *choice]) for choice in product(*choices)]
