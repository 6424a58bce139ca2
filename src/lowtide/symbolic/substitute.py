"""Replace variables by expressions, everywhere, and bring the result into normal form again."""

from collections.abc import Mapping

from lowtide.symbolic.atoms import FloorDiv, Max
from lowtide.symbolic.divide import floor_div_terms
from lowtide.symbolic.expression import Expr, terms_of
from lowtide.symbolic.maximum import maximum_terms
from lowtide.symbolic.terms import Atom, Terms, add_terms, is_variable, multiply_terms, variable_atom


def substitute(expression: Expr, replacements: Mapping[str, Expr | int]) -> Expr:
    """Return the expression with variables replaced, all at once.

    Args:
        expression: Any expression.
        replacements: For a variable's name what stands for it; variables that are not named stay.

    Raises:
        ZeroDivisionError: If a denominator becomes the integer 0.
    """
    return Expr(
        substitute_terms(
            expression.terms, {variable_atom(name): terms_of(value) for name, value in replacements.items()}
        )
    )


def substitute_terms(terms: Terms, images: Mapping[Atom, Terms]) -> Terms:
    """Return the polynomial with atoms replaced, also inside other atoms; `terms` itself where none occurs."""
    if not images:
        return terms
    known: dict[Atom, Terms | None] = {}
    return _replace(terms, images, known)


def _replace(terms: Terms, images: Mapping[Atom, Terms], known: dict[Atom, Terms | None]) -> Terms:
    total: Terms = {}
    changed: Terms = {}
    for monomial, coefficient in terms.items():
        if any(_image(atom, images, known) is not None for atom in monomial):
            product: Terms = {(): coefficient}
            for atom in monomial:
                image = _image(atom, images, known)
                product = multiply_terms(product, {(atom,): 1} if image is None else image)
            changed = add_terms(changed, product)
        else:
            total[monomial] = coefficient
    if len(total) == len(terms):
        return terms
    return add_terms(total, changed)


def _image(atom: Atom, images: Mapping[Atom, Terms], known: dict[Atom, Terms | None]) -> Terms | None:
    """Return what stands for an atom, or None where it stays."""
    direct = images.get(atom)
    if direct is not None:
        return direct
    if is_variable(atom):
        return None
    if atom not in known:
        known[atom] = _rebuild(atom, images, known)
    return known[atom]


def _rebuild(atom: Atom, images: Mapping[Atom, Terms], known: dict[Atom, Terms | None]) -> Terms | None:
    if isinstance(atom, FloorDiv):
        numerator = _replace(atom.numerator, images, known)
        denominator = _replace(atom.denominator, images, known)
        if numerator is atom.numerator and denominator is atom.denominator:
            return None
        return floor_div_terms(numerator, denominator)
    if isinstance(atom, Max):
        arguments = [_replace(argument, images, known) for argument in atom.arguments]
        if all(new is old for new, old in zip(arguments, atom.arguments, strict=True)):
            return None
        return maximum_terms(arguments)
    return None
