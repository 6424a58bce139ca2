"""Real text of varying length that every machine has: the functions of the installed standard library."""

import ast
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Tests and generated tables are no code that a person would ask for.
_LEFT_OUT = {"test", "tests", "idlelib", "lib2to3", "site-packages", "dist-packages", "turtledemo", "encodings"}
_SHORTEST_DOCSTRING = 24


@dataclass(frozen=True, slots=True)
class Sample:
    """A function of the standard library.

    Attributes:
        docstring: Its first paragraph, what the model is given.
        code: Its source without the docstring, what the model has to write.
    """

    docstring: str
    code: str


def read_samples(limit: int) -> list[Sample]:
    """Read the first `limit` documented functions, in the order of the files' names."""
    samples: list[Sample] = []
    for path in _source_files():
        for sample in _samples_of(path):
            samples.append(sample)
            if len(samples) == limit:
                return samples
    return samples


def _source_files() -> Iterator[Path]:
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        if not _LEFT_OUT.intersection(path.relative_to(root).parts):
            yield path


def _samples_of(path: Path) -> Iterator[Sample]:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError, OSError):
        return  # a template, or a file kept for another encoding
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        docstring = ast.get_docstring(node)
        if docstring is None or len(docstring) < _SHORTEST_DOCSTRING or len(node.body) < 2:
            continue
        node.body = node.body[1:]
        yield Sample(docstring.split("\n\n")[0], ast.unparse(node))
