"""The names that users may rely on. A change here is a change of the public surface: say so in CHANGELOG.md."""

import importlib
import inspect
import types

import pytest
from modules import module_files, module_names

import lowtide

# The rooms: `lowtide.symbolic`, `lowtide.ir`, ... A package inside a room keeps its own order.
PACKAGES = sorted(name for name, path in module_files() if path.name == "__init__.py" and name.count(".") == 1)


def test_every_public_name_can_be_loaded():
    for name in lowtide.__all__:
        assert getattr(lowtide, name) is not None, name
    assert dir(lowtide) == sorted(lowtide.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        lowtide.nonsense  # noqa: B018


def test_no_public_name_is_also_a_module():
    """Importing `lowtide.x` sets the attribute `x` of the package to the module and would hide a function `x`."""
    modules = {name.removeprefix("lowtide.") for name in module_names() if name.count(".") == 1}
    clash = sorted(modules & set(lowtide.__all__))
    assert not clash, f"public names that are module names too: {clash}; rename the module"


def test_public_names_are_documented():
    for name in lowtide.__all__:
        value = getattr(lowtide, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), f"lowtide.{name} has no docstring"


@pytest.mark.parametrize("package", PACKAGES)
def test_front_doors_have_a_docstring_and_no_logic(package: str):
    module = importlib.import_module(package)
    assert module.__doc__, f"{package} does not say what it is for"
    own = [
        name
        for name, value in vars(module).items()
        if isinstance(value, types.FunctionType | type) and value.__module__ == package and not name.startswith("__")
    ]
    assert not own, f"{package}/__init__.py defines {own}; a front door only re-exports"


@pytest.mark.parametrize("package", PACKAGES)
def test_names_listed_by_a_front_door_exist(package: str):
    module = importlib.import_module(package)
    missing = [name for name in getattr(module, "__all__", ()) if not hasattr(module, name)]
    assert not missing, f"{package}.__all__ lists {missing}"
