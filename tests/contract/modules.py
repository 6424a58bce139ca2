"""What the contract tests know about the source tree, read from its syntax and never by running it."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"


@dataclass(frozen=True)
class Import:
    """One imported module name and where it stands."""

    importer: str
    imported: str
    line: int

    def __str__(self) -> str:
        return f"{self.importer} line {self.line} imports {self.imported}"


def module_files() -> Iterator[tuple[str, Path]]:
    """Dotted name and file of every module of the package."""
    for path in sorted((SOURCE / "lowtide").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def module_names() -> list[str]:
    return [name for name, _ in module_files()]


def imports() -> list[Import]:
    """Every import of every module, those inside functions and type-checking blocks included."""
    known = set(module_names())
    found: list[Import] = []
    for name, path in module_files():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
            found += [Import(name, imported, node.lineno) for imported in _imported(node, package, known)]
    return found


def _imported(node: ast.AST, package: str, known: set[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*above, *([node.module] if node.module else [])])
        for alias in node.names:  # `from lowtide import symbolic` imports a module, not a name
            full = f"{base}.{alias.name}"
            yield full if full in known else base


def private_torch_names() -> dict[str, set[str]]:
    """Module -> names of torch in it with a part that begins with an underscore, imported or written with dots."""
    found: dict[str, set[str]] = {}
    for name, path in module_files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
            found.setdefault(name, set()).update(filter(_is_private_of_torch, _dotted_names(node)))
    return {name: names for name, names in found.items() if names}


def _dotted_names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Attribute):
        yield ast.unparse(node)


def _is_private_of_torch(name: str) -> bool:
    first, *rest = name.split(".")
    return first == "torch" and any(part.startswith("_") and not part.endswith("__") for part in rest)


def room(module: str) -> str:
    """The part of the package that a module belongs to: `lowtide.ir.text` is in room `ir`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")
