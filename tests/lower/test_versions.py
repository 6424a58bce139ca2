"""Which lowering a version of torch gets."""

import warnings

import pytest
import torch

from lowtide.lower import versions
from lowtide.lower.versions import UnknownLoweringError, UnknownTorchVersionWarning, choose_lowering, is_tested


@pytest.fixture(autouse=True)
def _forget_warnings():
    versions._warn_once.cache_clear()
    yield
    versions._warn_once.cache_clear()


def test_a_tested_version_gets_kernels_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choose_lowering("2.13.0") == "inductor"
        assert choose_lowering("2.13.1+cpu") == "inductor"
        assert choose_lowering(torch.__version__) == "inductor"


@pytest.mark.parametrize("version", ["2.99.0", "2.130.0", "2.13.0a0+git1234", "2.13.0.dev20260101", "3.0.0", "source"])
def test_an_unknown_version_gets_aten_calls_and_one_warning(version: str):
    assert not is_tested(version)
    with pytest.warns(UnknownTorchVersionWarning, match="plain aten calls"):
        assert choose_lowering(version) == "aten"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choose_lowering(version) == "aten"


def test_what_is_asked_for_is_given_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choose_lowering("2.99.0", "inductor") == "inductor"
        assert choose_lowering("2.13.0", "aten") == "aten"


def test_an_unknown_lowering_is_refused():
    with pytest.raises(UnknownLoweringError, match="'triton'"):
        choose_lowering("2.13.0", "triton")
