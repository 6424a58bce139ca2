"""Values of expressions where every variable has a value. Exact: Python integers throughout."""

from collections.abc import Mapping
from operator import index

from lowtide.symbolic.atoms import FloorDiv, Max
from lowtide.symbolic.errors import MissingVariableError, UndefinedSizeError
from lowtide.symbolic.expression import Expr
from lowtide.symbolic.terms import Atom, evaluate_terms, is_variable, variable_atom


class Values(dict[Atom, int]):
    """Values of atoms: those of the variables are given, those of floors and maxima are computed on first use.

    Looking up a known atom costs one dictionary access, so one object serves any number of polynomials.
    """

    __slots__ = ()

    @classmethod
    def of(cls, valuation: Mapping[str, int]) -> "Values":
        """Return values that start from a valuation; every number must be an integer (numpy's are converted).

        Raises:
            TypeError: If a value is no integer.
        """
        return cls({variable_atom(name): index(value) for name, value in valuation.items()})

    def __missing__(self, atom: Atom) -> int:
        """Compute the value of a floor division or maximum, and keep it.

        Raises:
            MissingVariableError: If a variable has no value.
            UndefinedSizeError: If a denominator is zero.
        """
        if isinstance(atom, FloorDiv):
            denominator = evaluate_terms(atom.denominator, self)
            if not denominator:
                raise UndefinedSizeError(str(atom), {name: self[variable_atom(name)] for name in atom.dims})
            value = evaluate_terms(atom.numerator, self) // denominator
        elif isinstance(atom, Max):
            value = max(evaluate_terms(argument, self) for argument in atom.arguments)
        else:
            raise MissingVariableError(str(atom), (str(key) for key in self if is_variable(key)), "valuation")
        self[atom] = value
        return value


def evaluate(expression: Expr, valuation: Mapping[str, int]) -> int:
    """Return the value of an expression.

    Args:
        expression: Any expression.
        valuation: An integer for every variable of the expression; others are ignored.

    Returns:
        The value. Exact, of any magnitude.

    Raises:
        MissingVariableError: If a variable has no value.
        UndefinedSizeError: If a denominator is zero there.

    Cost: O(size of the expression). For many expressions at one valuation use `compile_batch`.

    Example:
        >>> from lowtide.symbolic import dim, evaluate
        >>> evaluate(dim("seq") * 4 // 3, {"seq": 10})
        13
    """
    return evaluate_terms(expression.terms, Values.of(valuation))
