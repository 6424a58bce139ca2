"""Prints sympy sizes as Python."""

import sympy
from torch.utils._sympy.printers import PythonPrinter


class _SizePrinter(PythonPrinter):
    def parenthesize(self, item: sympy.Expr, level: int, strict: bool = False) -> str:
        """Put `Mod` in parentheses: sympy takes it for a function and prints -2*Mod(x, y) as -2*x%y."""
        if isinstance(item, sympy.Mod):
            return f"({self._print(item)})"
        return str(super().parenthesize(item, level, strict))


def size_code(value: sympy.Expr) -> str:
    """The Python expression of a size, over its symbols' names."""
    return str(_SizePrinter().doprint(value))
