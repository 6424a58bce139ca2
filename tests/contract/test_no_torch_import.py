"""The parts below the torch layer work, and stay quick to import, without torch."""

import subprocess
import sys

import pytest
from modules import module_names, room
from test_layers import ROOMS_WITHOUT_TORCH

BELOW_TORCH = sorted(name for name in module_names() if room(name) in ROOMS_WITHOUT_TORCH)


def _loaded_by(statement: str) -> set[str]:
    program = f"import sys; {statement}; print(*sorted(name for name in sys.modules if '.' not in name))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_symbolic_loads_neither_torch_nor_sympy():
    loaded = _loaded_by("import lowtide.symbolic")
    assert "lowtide" in loaded
    assert not loaded & {"torch", "sympy"}


@pytest.mark.parametrize("package", sorted({".".join(name.split(".")[:2]) for name in BELOW_TORCH}))
def test_importing_a_lower_package_does_not_load_torch(package: str):
    assert "torch" not in _loaded_by(f"import {package}")


def test_importing_the_front_door_does_not_load_torch():
    assert "torch" not in _loaded_by("import lowtide; lowtide.LowtideError")


def test_front_door_loads_torch_when_a_name_needs_it():
    assert "torch" in _loaded_by("import lowtide; lowtide.measure_peak")
