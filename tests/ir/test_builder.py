import pytest

from lowtide.ir import DimBinding, Output, Phase, ProgramBuilder, VerificationError
from lowtide.symbolic import parse
from tests.scenarios import diamond, everything


def test_binds_variables_to_input_axes_and_adds_the_others_as_inputs():
    program = (
        ProgramBuilder("bindings").dim("a").dim("b").dim("c").input("x", ["2*a", "b"]).input("y", ["b"])
        .bind("c", "a * 2").build()
    )  # fmt: skip
    assert program.inputs == ("x", "y", "a")
    assert program.entry_dims == (
        DimBinding("a", "a", None),
        DimBinding("b", "x", 1),
        DimBinding("c", "", None, "a * 2"),
    )


def test_sizes_and_strides_come_from_shapes():
    program = ProgramBuilder("sizes").dim("n").input("x", ["n", 3, "n + 1"], "bfloat16").build()
    assert program.buffers["x"].size == parse("6*n^2 + 6*n")
    assert program.values["x"].stride == (parse("3*n + 3"), parse("n + 1"), parse("1"))


def test_what_it_builds_is_verified():
    builder = ProgramBuilder("broken").statement("f", reads=["x"]).input("x", [1]).forward_output("y")
    with pytest.raises(VerificationError):
        builder.build()
    assert builder.build(verify=False).forward_outputs == (Output("y", None, "y"),)


def test_statements_after_backward_are_backward():
    assert [statement.phase for statement in everything().statements].count(Phase.BACKWARD) == 1


def test_a_program_answers_by_name():
    program = diamond()
    assert program.definer("a") == 0
    assert program.definer("x") is None
    assert program.users("a") == (1, 2)
    assert program.users("d") == ()
    assert program.values_in("a") == ("a",)
    assert program.values_in("nothing") == ()
    assert program.first_backward == 4
    assert program.run_time_dims == frozenset()
    assert everything().dim_definer("kept") == 3
    assert everything().dim_definer("batch") is None
    assert everything().values_in("e") == ("e", "grad")


def test_a_program_keeps_no_dict_of_its_maker():
    buffers = dict(diamond().buffers)
    program = diamond()
    buffers.clear()
    assert program.buffers
    with pytest.raises(TypeError):
        program.buffers["a"] = program.buffers["b"]  # type: ignore[index]
