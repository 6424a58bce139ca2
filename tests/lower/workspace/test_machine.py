"""Formulas that hold for one instruction set are not used on another."""

import pytest
import torch

from lowtide.lower.workspace import CpuMachine


@pytest.mark.parametrize(
    ("capability", "packs_reduced", "onednn"),
    [("AVX2", False, "avx2"), ("AVX512", None, None), ("DEFAULT", None, None), ("SVE256", None, None)],
)
def test_what_depends_on_the_instruction_set_is_known_for_avx2_only(
    capability: str, packs_reduced: bool | None, onednn: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    machine = CpuMachine.here()
    assert (machine.packs_reduced, machine.onednn) == (packs_reduced, onednn)
