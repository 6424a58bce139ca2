"""Orders from walks along the dependences."""

from lowtide.ir import Program, ProgramBuilder
from lowtide.schedule.problem import order_problem
from lowtide.schedule.walks import depth_first_order, reverse_post_order


def two_branches() -> Program:
    """a1 b1 a2 b2 join: two branches, written in turn."""
    builder = ProgramBuilder("branches").dim("n", 1, 8).input("x", ["n"])
    for step in ("1", "2"):
        for branch in "ab":
            reads = ["x"] if step == "1" else [f"{branch}1_out"]
            builder.statement(branch + step, reads=reads, defines={f"{branch}{step}_out": ["n"]})
    builder.statement("join", reads=["a2_out", "b2_out"], defines={"y": ["n"]})
    return builder.forward_output("y").build()


def names(program: Program, order: tuple[int, ...]) -> list[str]:
    return [program.statements[number].name for number in order]


def test_depth_first_finishes_a_branch_before_it_begins_the_next() -> None:
    program = two_branches()
    assert names(program, depth_first_order(order_problem(program))) == ["a1", "a2", "b1", "b2", "join"]


def test_reverse_post_order_takes_the_later_branch_first() -> None:
    program = two_branches()
    assert names(program, reverse_post_order(order_problem(program))) == ["b1", "b2", "a1", "a2", "join"]
