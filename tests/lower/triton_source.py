"""What the text of a generated Triton kernel says about its parameters: which are loaded, which are stored.

Independent of how the adapter tells roles: it looks at the kernel's body, the adapter at names and metadata.
"""

import ast
from dataclasses import dataclass

_STORES = {"store"}
_UPDATES = {"atomic_add", "atomic_max", "atomic_min", "atomic_cas", "atomic_xchg"}


@dataclass(frozen=True)
class KernelText:
    """A kernel's parameters in call order, and what its body does with them."""

    parameters: tuple[str, ...]
    read: frozenset[str]
    written: frozenset[str]


def kernels_in(module_source: str) -> dict[str, KernelText]:
    """Every Triton kernel that a generated module defines, by name."""
    found: dict[str, KernelText] = {}
    for node in ast.walk(ast.parse(module_source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "triton"
            and len(node.args) >= 2
            and isinstance(node.args[1], ast.Constant)
        ):
            name = ast.literal_eval(node.args[0])
            found[name] = _read_kernel(name, str(node.args[1].value))
    return found


def _read_kernel(name: str, text: str) -> KernelText:
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    function = next(node for node in functions if node.name == name)  # others are helpers, of a scan for example
    parameters = [arg.arg for arg in function.args.args if arg.annotation is None]
    read: set[str] = set()
    written: set[str] = set()
    addresses: set[int] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            names = {n.id for n in ast.walk(node.args[0]) if isinstance(n, ast.Name)}
            if node.func.attr in _STORES | _UPDATES:
                written |= names
                addresses |= {id(n) for n in ast.walk(node.args[0])}
            if node.func.attr in _UPDATES:
                read |= names
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and id(node) not in addresses:
            read.add(node.id)
    known = set(parameters)
    return KernelText(tuple(parameters), frozenset(read & known), frozenset(written & known))
