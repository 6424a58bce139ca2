"""Several kernels share a translation unit; what does not look like one kernel is compiled as Inductor does it."""

import pytest
import torch
from torch._inductor.async_compile import AsyncCompile

from lowtide.lower.inductor.translation_units import _HEADER, can_share_unit, shared_units, write_unit


def kernel(body: str, arguments: str = "const float* in_ptr0, float* out_ptr0, const int64_t ks0") -> str:
    return f'\n{_HEADER}\nextern "C"  void  kernel({arguments})\n{{\n    {body}\n}}\n'


DOUBLE = kernel("for (int64_t i = 0; i < ks0; i++) out_ptr0[i] = 2 * in_ptr0[i];")
NEGATE = kernel("for (int64_t i = 0; i < ks0; i++) out_ptr0[i] = -in_ptr0[i];")
THROW = kernel('throw std::runtime_error("division by zero");', "float* out_ptr0")


def test_one_include_and_one_function_can_share() -> None:
    assert can_share_unit(DOUBLE)


@pytest.mark.parametrize(
    "source",
    [
        "",
        DOUBLE + NEGATE,
        DOUBLE + "static int counter;\n",
        DOUBLE.replace(_HEADER, _HEADER + "\n#include <omp.h>"),
        DOUBLE.replace("kernel(", "other("),
    ],
)
def test_anything_else_is_compiled_alone(source: str) -> None:
    assert not can_share_unit(source)


def test_a_unit_keeps_the_bodies_and_numbers_the_names() -> None:
    unit = write_unit({0: DOUBLE, 7: NEGATE})
    assert unit.count(_HEADER) == 1
    assert 'extern "C" void kernel_0(const float* in_ptr0' in unit
    assert 'extern "C" void kernel_7(' in unit
    assert "out_ptr0[i] = -in_ptr0[i];" in unit


def test_compiled_kernels_compute_check_their_arguments_and_report_exceptions() -> None:
    with shared_units():
        compiler = AsyncCompile()
        pending = [compiler.cpp_pybinding([], source) for source in (DOUBLE, NEGATE, THROW)]
        compiler.wait({})
    double, negate, throw = (p.result() for p in pending)
    x, y = torch.arange(5.0), torch.empty(5)
    double(x, y, 5)
    assert torch.equal(y, 2 * x)
    negate(x, y, 3)
    assert torch.equal(y, torch.tensor([0.0, -1.0, -2.0, 6.0, 8.0]))
    with pytest.raises(TypeError, match="3 arguments was called with 2"):
        double(x, y)
    with pytest.raises(RuntimeError, match="expects an integer"):
        double(x, y, "five")
    with pytest.raises(RuntimeError, match="division by zero"):
        throw(y)


def test_outside_of_the_context_torch_compiles_as_ever() -> None:
    before = AsyncCompile.cpp_pybinding
    with shared_units():
        assert AsyncCompile.cpp_pybinding is not before
    assert AsyncCompile.cpp_pybinding is before
