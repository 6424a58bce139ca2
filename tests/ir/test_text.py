from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from lowtide.ir import (
    Buffer,
    BufferKind,
    Cost,
    DimBinding,
    Flag,
    Output,
    Phase,
    Program,
    ProgramTextError,
    Statement,
    Value,
    Workspace,
    parse_program,
    render_program,
    render_statement,
    verify_program,
)
from lowtide.symbolic import AtMost, Divisible, Equal, Scope, const, dim, parse
from tests.random_programs import programs
from tests.scenarios import SCENARIOS, diamond

GOLDEN = Path(__file__).parents[1] / "golden" / "ir"


@pytest.mark.parametrize("name", SCENARIOS)
def test_text_is_the_golden_one(name: str):
    golden = (GOLDEN / f"{name}.prog").read_text(encoding="utf-8")
    without_comments = "".join(line for line in golden.splitlines(keepends=True) if not line.startswith("#"))
    assert render_program(SCENARIOS[name]()) == without_comments


@pytest.mark.parametrize("name", SCENARIOS)
def test_golden_text_parses_to_the_program(name: str):
    program = parse_program((GOLDEN / f"{name}.prog").read_text(encoding="utf-8"))
    assert program == SCENARIOS[name]()
    verify_program(program)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_random_programs_parse_back(program: Program):
    text = render_program(program)
    assert parse_program(text) == program
    assert render_program(parse_program(text)) == text


_NAMES = st.text(min_size=0, max_size=8)


@settings(max_examples=200, deadline=None)
@given(_NAMES, st.lists(_NAMES, max_size=3).map(tuple), st.text(max_size=20), st.text(max_size=20))
@example("x.shape", ("x.shape",), "code", " \r")
@example("code", ("code", "unknown"), "# no comment", "\n")
@example("none", ("forward", "bytes"), "|", "\u2028\x0b")
@example("", ("", "\\", '"'), "", "  indented  ")
def test_any_names_and_code_parse_back(name: str, names: tuple[str, ...], first: str, second: str):
    """The form is complete for whatever the data can hold, sound or not."""
    program = Program(
        name=name,
        level="aten",
        scope=Scope({"s0": (0, None), "u0": (-3, 9)}, [Equal(dim("s0"), 15), AtMost(dim("u0"), dim("s0") * 2),
                                                       Divisible(dim("s0") + 1, 8)]),
        dim_names={"s0": name, "elsewhere": first},
        buffers={name: Buffer(name, parse("max(s0, 4) + 4*floor(s0/2)"), BufferKind.TANGENT, first)},
        values={name: Value(name, second, first, (dim("s0"), const(2)), (), const(-1))},
        inputs=names,
        tangents=names,
        statements=(
            Statement(name, first, Phase.BACKWARD, names, names, names, names, (Workspace(name, None),
                      Workspace(first, const(1))), Cost(const(0), parse("max(s0, 2, u0)")), frozenset(Flag),
                      ((name, first), (first, second)), False, (first, second), second, names),
            Statement(name, first, Phase.FORWARD, code=(second,)),
        ),
        forward_outputs=(Output(None, None, second), Output(name, None, first), Output(None, dim("s0"), "")),
        backward_outputs=(Output(name, parse("s0 - 1"), second),),
        entry_dims=(DimBinding("s0", name, 3), DimBinding(name, name, None), DimBinding(name, "", None, "x" + first)),
        assumptions=(first, second),
    )  # fmt: skip
    assert parse_program(render_program(program)) == program


def test_comments_blank_lines_and_trailing_spaces_mean_nothing():
    lines = render_program(diamond()).splitlines()
    text = "\n# head\n" + "\n\n  # note\n".join(line + "  " for line in lines) + "\n# tail"
    assert parse_program(text) == diamond()


def test_a_statement_prints_on_its_own():
    assert render_statement(diamond().statements[2]) == (
        "forward h calls h\n  reads a\n  defines c\n  cost flops 256*batch, bytes 0\n  may_reuse c <- a"
    )


HEAD = "lowtide program 1\nname p\nlevel kernels\n"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 0, "there is no line 'name ...'"),
        ("lowtide program 1\nname p\n", 0, "there is no line 'level ...'"),
        ("program p", 1, "expected 'lowtide program'"),
        ("lowtide program 7\n", 1, "expected version 1 of the form"),
        (HEAD + "bogus line", 4, "expected one of forward, backward, name"),
        (HEAD + "level high", 4, "expected level aten or level kernels"),
        (HEAD + "dim n in [1, x]", 4, "expected an integer"),
        (HEAD + "dim n in [1, 2]\ndim n in [1, 2]", 5, "each dim once, but 'n' is there already"),
        (HEAD + "dim n between 1 and 2", 4, "expected 'in'"),
        (HEAD + "relation n < m", 4, "expected an expression"),
        (HEAD + "assume nothing", 4, "expected a JSON string"),
        (HEAD + "buffer a: borrowed on cpu, bytes 4", 4, "expected one of input, number, constant, tangent"),
        (HEAD + "buffer a: input on cpu, bytes 4 +", 4, "expected an expression"),
        (HEAD + "buffer a: input on cpu, bytes __import__('os')", 4, "expected an expression"),
        (HEAD + "buffer 7: input on cpu, bytes 4", 4, "expected a name"),
        (HEAD + "value a in a: float32 [4] stride [1]", 4, "expected 'offset'"),
        (HEAD + "value a in a: float32 [4 stride [1] offset 0", 4, "expected an expression"),
        (HEAD + "inputs a b", 4, "expected the end of the line"),
        (HEAD + "entry n = 5", 4, "expected the name of an input"),
        (HEAD + "output sideways none", 4, "expected 'backward'"),
        (HEAD + "output forward x", 4, "expected 'none'"),
        (HEAD + "  reads a", 4, "expected a statement before its details"),
        (HEAD + "forward f runs g", 4, "expected 'calls'"),
        (HEAD + "forward f calls g\n  eats a", 5, "expected one of reads, writes"),
        (HEAD + "forward f calls g\n  flags quick", 5, "expected flags among recomputable, random"),
        (HEAD + "forward f calls g\n  may_reuse a b", 5, "expected '<-'"),
        (HEAD + "forward f calls g\n  workspace w 4", 5, "expected ':'"),
        (HEAD + "forward f calls g\n  cost 4", 5, "expected 'flops'"),
        (HEAD + "dim max in [1, 2]", 0, "'max' cannot name a dimension variable"),
        (HEAD + "relation n <= 4", 0, "make no scope"),
        (HEAD + "dim n in [1, 2]\nrelation n == 4", 0, "make no scope"),
    ],
)
def test_wrong_text_names_line_and_expectation(text: str, line: int, message: str):
    with pytest.raises(ProgramTextError) as caught:
        parse_program(text)
    assert caught.value.line == line
    assert message in str(caught.value)
    assert (f"line {line}" if line else "the whole text") in caught.value.where
    assert caught.value.fix


def test_a_program_with_other_buffers_is_another_program():
    other = replace(diamond(), name="other")
    assert parse_program(render_program(other)) != diamond()
