"""torch's compile cache on disk: a second process takes finished programs from it and lowers nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.torch_backend import cached_step
from tests.torch_backend.pairs import assert_bitwise


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache directory that a first process has filled, and what it gave."""
    folder = tmp_path_factory.mktemp("cache")
    report = _run(folder, "first")
    assert (report["hits"], report["misses"], report["bypasses"]) == (0, 2, 0)
    assert report["lowered"] > 0
    return folder


def _run(folder: Path, name: str, *, options: dict[str, Any] | None = None, prelude: str = "") -> dict[str, Any]:
    """One process: its report; the tensors go to `folder/name`."""
    program = (
        f"{prelude}\nfrom tests.torch_backend.cached_step import main\nmain(*{_arguments(folder, name, options)!r})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=Path(cached_step.__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _arguments(folder: Path, name: str, options: dict[str, Any] | None) -> tuple[str, str]:
    return json.dumps(options or {}), str(folder / name)


def test_a_second_process_lowers_and_compiles_nothing_and_computes_the_same_bits(cache: Path):
    compiled = set(cache.rglob("*.so"))
    report = _run(cache, "second")
    assert (report["hits"], report["misses"], report["bypasses"], report["lowered"]) == (2, 0, 0, 0)
    assert compiled
    assert set(cache.rglob("*.so")) == compiled
    assert_bitwise(torch.load(cache / "second"), torch.load(cache / "first"))


def test_programs_from_the_cache_can_be_explained(cache: Path):
    report = _run(cache, "third")
    assert len(report["texts"]) == 2
    assert all(report["texts"])


def test_another_option_of_inductor_misses(cache: Path):
    report = _run(cache, "simd", options={"cpp.simdlen": 1})
    assert (report["hits"], report["misses"]) == (0, 2)


def test_another_version_of_lowtide_misses(cache: Path):
    report = _run(cache, "version", prelude="import lowtide; lowtide.__version__ = '0.0.0'")
    assert (report["hits"], report["misses"]) == (0, 2)
    assert_bitwise(torch.load(cache / "version"), torch.load(cache / "first"))


def test_the_fallback_option_does_not_matter_to_the_cache(cache: Path):
    report = _run(cache, "fallback", options={"fallback": False})
    assert (report["hits"], report["misses"]) == (2, 0)
