import pytest

from lowtide.ir import Value, contiguous_strides, extent, is_dtype, item_bytes, needed_dims, numel
from lowtide.symbolic import const, parse
from tests.scenarios import everything


def test_strides_and_counts():
    shape = tuple(parse(text) for text in ("b", "s", "4"))
    assert numel(shape) == parse("4*b*s")
    assert numel(()) == const(1)
    assert contiguous_strides(shape) == (parse("4*s"), parse("4"), parse("1"))
    assert contiguous_strides(()) == ()


def test_extent_counts_from_the_start_of_the_buffer():
    value = Value("v", "b", "int64", (parse("b"), parse("s")), (parse("2*s"), parse("1")), parse("s"))
    # offset s, last row at (b - 1)*2*s, last column at s - 1, one element of 8 bytes
    assert extent(value) == parse("16*b*s")
    assert extent(Value("scalar", "b", "bool", (), (), const(3))) == const(4)


def test_element_types():
    assert item_bytes("torch.bfloat16") == 2
    assert is_dtype("float32")
    assert not is_dtype("float31")
    with pytest.raises(KeyError):
        item_bytes("float31")


def test_needed_dims_leaves_out_what_the_call_makes_known():
    program = everything()
    pick, exp = program.statements[3:5]
    assert needed_dims(program, pick) == {"batch", "seq"}
    assert needed_dims(program, exp) == {"batch", "seq", "kept"}
