"""Finds and renames identifiers in fragments of generated Python, leaving attributes and string literals alone."""

import re
from collections.abc import Mapping

_TOKEN = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?<![\w.])([A-Za-z_]\w*)""")
_IDENTIFIER = re.compile(r"(?<![\w.'\"])([A-Za-z_]\w*)")
_KEYWORD_ARGUMENT = re.compile(r"\s*=(?!=)")


def identifiers(text: str) -> list[str]:
    """The identifiers of a Python fragment that are not attributes."""
    return _IDENTIFIER.findall(text)


def rename_identifiers(text: str, renamed: Mapping[str, str]) -> str:
    """Replace whole identifiers.

    Args:
        text: A Python fragment: a call, an assignment or an expression.
        renamed: Old name -> new name. Names of keyword arguments inside a call are left alone.

    Cost: linear in the text.
    """
    depth_at = _depths(text)

    def replace(match: re.Match[str]) -> str:
        literal, name = match.groups()
        if literal is not None:
            return str(literal)
        if depth_at[match.start()] and _KEYWORD_ARGUMENT.match(text, match.end()):
            return str(name)
        return renamed.get(name, name)

    return _TOKEN.sub(replace, text)


def _depths(text: str) -> list[int]:
    depths, depth = [], 0
    for character in text:
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        depths.append(depth)
    return depths
