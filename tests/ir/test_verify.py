"""Every defect has a program that shows it, made by damaging a sound one."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from lowtide.ir import (
    BufferKind,
    Defect,
    DimBinding,
    Output,
    Phase,
    Program,
    ProgramBuilder,
    Statement,
    VerificationError,
    Workspace,
    verify_program,
)
from lowtide.symbolic import AtMost, Divisible, Equal, Scope, const, dim, parse
from tests.scenarios import SCENARIOS, diamond, everything, long_skip, staircase


def _statement(program: Program, number: int, /, **changes: object) -> Program:
    statements = list(program.statements)
    statements[number] = replace(statements[number], **changes)
    return replace(program, statements=tuple(statements))


def _value(program: Program, name: str, /, **changes: object) -> Program:
    return replace(program, values={**program.values, name: replace(program.values[name], **changes)})


def _buffer(program: Program, name: str, /, **changes: object) -> Program:
    return replace(program, buffers={**program.buffers, name: replace(program.buffers[name], **changes)})


def _swap(program: Program, one: int, other: int) -> Program:
    statements = list(program.statements)
    statements[one], statements[other] = statements[other], statements[one]
    return replace(program, statements=tuple(statements))


def _with_range(name: str, low: int) -> Scope:
    scope = diamond().scope
    return Scope({**scope.ranges, name: (low, None)}, scope.constraints)


DAMAGES: list[tuple[Defect, Callable[[], Program], str]] = [
    (Defect.NAME_MISMATCH, lambda: _buffer(diamond(), "a", name="A"), "the buffer filed under 'a' is called 'A'"),
    (Defect.NAME_MISMATCH, lambda: _value(diamond(), "a", name="A"), "the value filed under 'a' is called 'A'"),
    (Defect.DUPLICATE_STATEMENT, lambda: _statement(diamond(), 1, name="f"), "statements 0 and 1 are both called 'f'"),
    (
        Defect.AMBIGUOUS_NAME,
        lambda: replace(diamond(), scope=_with_range("a", 1)),
        "'a' is a value and a dimension variable",
    ),
    (Defect.UNKNOWN_BUFFER, lambda: _value(diamond(), "a", buffer="heap"), "value 'a' names buffer 'heap'"),
    (Defect.UNKNOWN_VALUE, lambda: _statement(diamond(), 1, reads=("ghost",)), "statement 'g' names 'ghost'"),
    (
        Defect.UNKNOWN_VALUE,
        lambda: replace(diamond(), inputs=("x", "ghost")),
        "input 'ghost' is neither a value nor a dimension variable",
    ),
    (Defect.UNKNOWN_DIM, lambda: _buffer(diamond(), "a", size=dim("seq")), "'seq' in seq of buffer 'a'"),
    (Defect.UNKNOWN_DIM, lambda: _statement(diamond(), 0, reads_dims=("seq",)), "'seq' in statement 'f'"),
    (Defect.UNKNOWN_DIM, lambda: replace(diamond(), dim_names={"seq": "length"}), "'seq' in dim_names"),
    (Defect.UNKNOWN_DIM, lambda: replace(diamond(), entry_dims=(DimBinding("seq", "x", 0),)), "'seq' in entry_dims"),
    (
        Defect.UNKNOWN_DIM,
        lambda: replace(diamond(), forward_outputs=(Output(None, dim("seq"), "seq"),)),
        "'seq' in seq of output 'seq'",
    ),
    (Defect.UNKNOWN_DTYPE, lambda: _value(diamond(), "a", dtype="float31"), "value 'a' has element type 'float31'"),
    (Defect.RANK_MISMATCH, lambda: _value(diamond(), "a", stride=(const(1),)), "has 2 axes and 1 strides"),
    (
        Defect.OUTSIDE_BUFFER,
        lambda: _value(diamond(), "a", offset=const(1)),
        "ends 1024*batch + 4 bytes into buffer 'a' of 1024*batch bytes",
    ),
    (Defect.OUTSIDE_BUFFER, lambda: _buffer(diamond(), "b", size=parse("max(2048*batch - 1, 0)")), "at batch="),
    (Defect.NEGATIVE_SIZE, lambda: _buffer(diamond(), "a", size=parse("-4*batch")), "has -4*batch bytes"),
    (
        Defect.NEGATIVE_SIZE,
        lambda: _statement(diamond(), 1, workspace=(Workspace("scratch", const(-1)),)),
        "workspace 'scratch' has -1 bytes",
    ),
    (
        Defect.WRONG_OWNER,
        lambda: _buffer(diamond(), "x", kind=BufferKind.INTERMEDIATE),
        "input 'x' lives in buffer 'x' of kind intermediate",
    ),
    (Defect.WRONG_OWNER, lambda: _buffer(long_skip(), "dy", kind=BufferKind.INPUT), "tangent 'dy' lives in buffer"),
    (
        Defect.BAD_BINDING,
        lambda: replace(diamond(), entry_dims=(DimBinding("batch", "y", 0),)),
        "'y' is no input",
    ),
    (Defect.BAD_BINDING, lambda: replace(diamond(), entry_dims=(DimBinding("batch", "x", None),)), "is a tensor"),
    (Defect.BAD_BINDING, lambda: replace(diamond(), entry_dims=(DimBinding("batch", "x", 2),)), "has 2 axes, not 3"),
    (
        Defect.BAD_BINDING,
        lambda: replace(diamond(), inputs=("x", "batch"), entry_dims=(DimBinding("batch", "batch", 0),)),
        "is an integer and has no axes",
    ),
    (
        Defect.DIM_DEFINED_TWICE,
        lambda: _statement(diamond(), 0, defines_dims=("batch",)),
        "'f' defines 'batch', which is known already",
    ),
    (
        Defect.DIM_NOT_KNOWN,
        lambda: replace(diamond(), entry_dims=()),
        "'f' needs 'batch', which is not known when it begins",
    ),
    (Defect.DIM_NOT_KNOWN, lambda: _statement(everything(), 2, reads_dims=("kept",)), "'update' needs 'kept'"),
    (Defect.DIM_NOT_KNOWN, lambda: _statement(everything(), 3, allocates=True), "'pick' needs 'kept'"),
    (
        Defect.DIM_NOT_DECLARED,
        lambda: _statement(everything(), 5, code=("exp_backward(e, dy, kept)",)),
        "the code of 'exp_backward' mentions 'kept'",
    ),
    (
        Defect.PHASES_MIXED,
        lambda: _statement(_statement(diamond(), 2, phase=Phase.BACKWARD), 3, phase=Phase.FORWARD),
        "'k' is forward and comes after the first backward statement",
    ),
    (Defect.DEFINED_TWICE, lambda: _statement(diamond(), 2, defines=("b",), may_reuse=()), "which exists already"),
    (Defect.DEFINED_TWICE, lambda: _statement(diamond(), 1, defines=("b", "b")), "names 'b' twice"),
    (Defect.DEFINED_TWICE, lambda: _statement(diamond(), 1, defines=("x",)), "'g' defines 'x', which exists already"),
    (Defect.NOT_DEFINED, lambda: _swap(diamond(), 0, 1), "'g' uses 'a', but statement 1 defines it"),
    (
        Defect.NOT_DEFINED,
        lambda: replace(diamond(), inputs=("batch",), entry_dims=(DimBinding("batch", "batch", None),)),
        "'f' uses 'x', but nothing defines it",
    ),
    (Defect.TANGENT_IN_FORWARD, lambda: _statement(long_skip(), 1, reads=("dy",)), "uses the tangent 'dy'"),
    (
        Defect.OVERWRITTEN,
        lambda: _statement(_value(diamond(), "c", buffer="a"), 3, reads=("b", "c", "a")),
        "'k' uses 'a', whose storage 'h' took over",
    ),
    (Defect.WRITE_TO_DEAD, lambda: _statement(diamond(), 1, writes=("d",)), "'g' uses 'd', but statement 3 defines it"),
    (Defect.BAD_REUSE_PAIR, lambda: _statement(diamond(), 2, may_reuse=(("c", "b"),)), "'b' is not read by 'h'"),
    (Defect.BAD_REUSE_PAIR, lambda: _statement(diamond(), 2, may_reuse=(("b", "a"),)), "'b' is not defined by 'h'"),
    (
        Defect.REUSE_NOT_PERMITTED,
        lambda: _statement(_value(diamond(), "c", buffer="a"), 2, may_reuse=()),
        "and there is no pair ('c', 'a')",
    ),
    (
        Defect.REUSE_NOT_PERMITTED,
        lambda: _statement(_value(diamond(), "c", buffer="a"), 2, writes=("a",)),
        "which the statement also writes in place",
    ),
    (
        Defect.REUSE_NOT_PERMITTED,
        lambda: _value(diamond(), "d", buffer="a"),
        "which holds a, none of which it reads",
    ),
    (
        Defect.STORAGE_NOT_OURS,
        lambda: _value(diamond(), "a", buffer="x"),
        "'f' allocates 'a' in buffer 'x' of kind input",
    ),
    (
        Defect.VIEW_OF_NOTHING,
        lambda: _statement(_value(diamond(), "d", buffer="a"), 3, allocates=False),
        "'k' defines 'd' in buffer 'a' and reads none of ['a']",
    ),
    (
        Defect.BAD_OUTPUT,
        lambda: replace(diamond(), forward_outputs=(Output("ghost", None, "ghost"),)),
        "'ghost' is no value",
    ),
    (
        Defect.BAD_OUTPUT,
        lambda: replace(diamond(), forward_outputs=(Output("d", const(1), "d"),)),
        "it is a value and an integer at once",
    ),
    (
        Defect.BAD_OUTPUT,
        lambda: replace(_value(diamond(), "c", buffer="a"), forward_outputs=(Output("a", None, "a"),)),
        "'h' takes over the storage of 'a'",
    ),
    (
        Defect.BAD_OUTPUT,
        lambda: replace(long_skip(), forward_outputs=(Output("dx", None, "dx"),)),
        "'dx' comes to be only in backward",
    ),
    (
        Defect.BAD_OUTPUT,
        lambda: replace(long_skip(), forward_outputs=(Output("dy", None, "dy"),)),
        "'dy' comes to be only in backward",
    ),
    (
        Defect.BAD_OUTPUT,
        lambda: replace(long_skip(), statements=long_skip().statements[:-1]),
        "'dx' never comes to be",
    ),
    (
        Defect.BAD_OUTPUT,
        lambda: replace(
            diamond(),
            scope=_with_range("late", 0),
            forward_outputs=(Output(None, dim("late"), "late"),),
        ),
        "'late' is not known then",
    ),
]


@pytest.mark.parametrize(("defect", "damage", "text"), DAMAGES, ids=[f"{d.name}-{t}" for d, _, t in DAMAGES])
def test_reports(defect: Defect, damage: Callable[[], Program], text: str):
    with pytest.raises(VerificationError) as caught:
        verify_program(damage())
    error = caught.value
    assert error.defect is defect
    assert text in error.found
    assert defect.value in str(error)
    assert error.subject
    assert error.fix


def test_every_defect_is_tested():
    assert {defect for defect, _, _ in DAMAGES} == set(Defect)


@pytest.mark.parametrize("name", SCENARIOS)
def test_sound_programs_pass(name: str):
    assert verify_program(SCENARIOS[name]()).undecided == ()


def test_message_shows_the_statement_between_its_neighbours():
    broken = _statement(staircase(), 3, reads=("d2",))
    with pytest.raises(VerificationError) as caught:
        verify_program(broken)
    assert caught.value.statement == 3
    assert str(caught.value) == (
        "program 'staircase' is not sound: a value is used before it comes to be\n"
        "  Found: 'up_4' uses 'd2', but statement 5 defines it\n"
        "  Where: program 'staircase', statement 3\n"
        "          1  forward up_2 calls up_2\n"
        "               reads u1\n"
        "               defines u2\n"
        "          2  forward up_3 calls up_3\n"
        "               reads u2\n"
        "               defines u3\n"
        "    >     3  forward up_4 calls up_4\n"
        "    >          reads d2\n"
        "    >          defines u4\n"
        "          4  forward down_3 calls down_3\n"
        "               reads u4\n"
        "               defines d3\n"
        "               may_reuse d3 <- u4\n"
        "          5  forward down_2 calls down_2\n"
        "               reads d3\n"
        "               defines d2\n"
        "               may_reuse d2 <- d3\n"
        "  Try: define the value first, or list it among the inputs"
    )


def test_a_value_that_may_be_empty_does_not_need_room():
    """With k = 0 there are no elements, although (n - 1)*1 + 1 elements would not fit into 4*n*k bytes."""
    program = (
        ProgramBuilder("empty").dim("n", 1, 9).dim("k", 0, 9).input("x", ["n", "k"])
        .statement("f", reads=["x"], defines={"a": ["k", "n"]})
        .buffer("b", "4*n*k").place("b", "b", ["n", "k"], stride=[1, "n"])
        .statement("g", reads=["a"], places=["b"])
        .buffer("c", 0).place("c", "c", [0, "n"])
        .statement("h", reads=["b"], places=["c"])
        .forward_output("b", "c").build(verify=False)
    )  # fmt: skip
    assert verify_program(program).undecided == ()


def test_relations_of_the_scope_decide_windows():
    builder = (
        ProgramBuilder("relations").dim("n", 1, 99).dim("m", 1, 99).input("x", ["n"]).input("y", ["m"])
        .buffer("a", "4*n").place("a", "a", ["m"]).statement("f", reads=["x"], places=["a"]).forward_output("a")
    )  # fmt: skip
    with pytest.raises(VerificationError, match="reaches beyond"):
        builder.build()
    verify_program(builder.relate(AtMost(dim("m"), dim("n")), Divisible(dim("n"), 2), Equal(dim("m"), 3)).build())


def test_a_tangent_may_be_returned_without_a_backward_statement():
    program = ProgramBuilder("pass").dim("n").input("x", ["n"]).tangent("t", ["n"]).backward_output("t").build()
    assert program.first_backward == 0


def test_a_dim_output_known_only_in_backward_is_no_forward_output():
    program = (
        ProgramBuilder("late").dim("n").dim("u", 0, 9).input("x", ["n"]).backward()
        .statement("pick", reads=["x"], defines_dims=["u"], allocates=False)
        .output(Output(None, dim("u"), "u")).build(verify=False)
    )  # fmt: skip
    with pytest.raises(VerificationError, match="'u' is not known then"):
        verify_program(program)
    moved = replace(program, forward_outputs=(), backward_outputs=program.forward_outputs)
    verify_program(moved)


def test_a_statement_may_read_nothing():
    verify_program(replace(diamond(), statements=(*diamond().statements, Statement("noop", "noop", Phase.FORWARD))))
