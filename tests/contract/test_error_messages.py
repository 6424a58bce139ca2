"""Every error that lowtide raises says four things: what failed, what was found, where, what to do."""

import ast
import enum
import importlib
import inspect
import types
import typing
from collections.abc import Iterator, Mapping

import pytest
from error_samples import SAMPLES
from modules import module_files, module_names

from lowtide.errors import LowtideError


def _error_classes() -> list[type[LowtideError]]:
    for name in module_names():
        importlib.import_module(name)
    found: list[type[LowtideError]] = []
    pending = [LowtideError]
    while pending:
        for child in pending.pop().__subclasses__():
            if child.__module__.startswith("lowtide"):
                found.append(child)
                pending.append(child)
    return sorted(found, key=lambda cls: cls.__qualname__)


def _sample(cls: type[LowtideError]) -> LowtideError:
    """Build an error of the class, from SAMPLES or from the annotations of its constructor."""
    if cls.__qualname__ in SAMPLES:
        return SAMPLES[cls.__qualname__](cls)
    hints = typing.get_type_hints(cls.__init__)
    positional, named = [], {}
    for parameter in list(inspect.signature(cls.__init__).parameters.values())[1:]:
        value = _value(hints.get(parameter.name, str), cls, parameter.name)
        if parameter.kind is parameter.KEYWORD_ONLY:
            named[parameter.name] = value
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            positional.append(value)
    return cls(*positional, **named)


def _value(hint: object, cls: type, name: str) -> object:
    origin = typing.get_origin(hint) or hint
    if origin in (typing.Union, types.UnionType):
        return _value(typing.get_args(hint)[0], cls, name)
    simple: dict[object, object] = {str: f"<{name}>", int: 7, float: 0.5, bool: True, type(None): None, object: "thing"}
    if isinstance(origin, type) and issubclass(origin, enum.Enum):
        return next(iter(origin))
    if origin in simple:
        return simple[origin]
    if origin in (tuple, list, frozenset, set) or getattr(origin, "__name__", "") in (
        "Sequence",
        "Iterable",
        "Collection",
    ):
        return ("one", "two")
    if origin in (dict, Mapping):
        return {"batch": 3}
    pytest.fail(
        f"cannot make a sample {hint} for {cls.__qualname__}.{name}: add the class to tests/contract/error_samples.py"
    )


ERRORS = _error_classes()


@pytest.mark.parametrize("cls", ERRORS, ids=lambda cls: cls.__qualname__)
def test_message_has_four_parts(cls: type[LowtideError]):
    error = _sample(cls)
    for part in ("what", "found", "where", "fix"):
        text = getattr(error, part)
        assert isinstance(text, str), f"{cls.__qualname__}.{part}"
        assert text.strip(), f"{cls.__qualname__}.{part} is empty"
        assert text in str(error)
    lines = str(error).splitlines()
    assert not lines[0].startswith(" ")
    for label in ("  Found: ", "  Where: ", "  Try: "):
        assert any(line.startswith(label) for line in lines), f"{cls.__qualname__} lacks {label.strip()}"


@pytest.mark.parametrize("cls", ERRORS, ids=lambda cls: cls.__qualname__)
def test_class_is_documented_and_named_an_error(cls: type[LowtideError]):
    assert cls.__name__.endswith("Error")
    assert cls.__doc__


def test_errors_are_lowtide_errors_or_a_callers_mistake():
    """Where the library raises by name, it is a LowtideError, or one of the few that mean a caller's mistake."""
    callers_mistake = {
        "TypeError", "ValueError", "KeyError", "IndexError", "AttributeError", "AssertionError", "StopIteration",
        "NotImplementedError", "RuntimeError", "ZeroDivisionError",
    }  # fmt: skip
    ours = {cls.__name__ for cls in ERRORS} | {"LowtideError"}
    wrong = [
        f"{module} line {line}: raise {name}"
        for module, line, name in _raised()
        if name.endswith(("Error", "Exception")) and name not in ours | callers_mistake
    ]
    assert not wrong, "\n".join(["unexpected exception types:", *wrong])


def test_no_message_forgot_its_f():
    """A text with `{name}` that is no f-string shows the braces to the user."""
    wrong = [
        f"{module} line {node.lineno}: {node.value!r}"
        for module, call in _raise_calls()
        for node in ast.walk(call)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and _looks_like_a_placeholder(node.value)
        and id(node) not in _inside_f_strings(call)
    ]
    assert not wrong, "\n".join(wrong)


def _looks_like_a_placeholder(text: str) -> bool:
    start, stop = text.find("{"), text.find("}")
    return 0 <= start < stop - 1 and text[start + 1 : stop].replace(".", "").replace("!r", "").isidentifier()


def _inside_f_strings(call: ast.AST) -> set[int]:
    return {id(part) for node in ast.walk(call) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}


def _raised() -> Iterator[tuple[str, int, str]]:
    for name, path in module_files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and node.exc is not None:
                raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
                if isinstance(raised, ast.Name):
                    yield name, node.lineno, raised.id
                elif isinstance(raised, ast.Attribute):
                    yield name, node.lineno, raised.attr


def _raise_calls() -> Iterator[tuple[str, ast.Call]]:
    """Calls that build an error: in a raise statement, or super().__init__ of an error class."""
    for name, path in module_files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                yield name, node.exc
            elif isinstance(node, ast.ClassDef) and node.name.endswith("Error"):
                for call in ast.walk(node):
                    if isinstance(call, ast.Call):
                        yield name, call
