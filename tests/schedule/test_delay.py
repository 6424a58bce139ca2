"""Delayed orders: what only allocates waits until it is needed."""

from lowtide.ir import Program, ProgramBuilder
from lowtide.schedule.delay import delayed_order
from lowtide.schedule.numbers import at_valuation
from lowtide.schedule.problem import order_problem


def early_allocation() -> Program:
    builder = ProgramBuilder("early").dim("n", 1, 100).input("x", ["n"])
    builder.statement("save", reads=["x"], defines={"saved": ["n"]})
    builder.statement("loss", reads=["saved"], defines={"y": [1]})
    builder.backward()
    builder.statement("fill", reads=["x"], defines={"zeros": ["n"]})
    builder.statement("shrink", reads=["saved"], defines={"w": [1]})
    builder.statement("use", reads=["zeros", "w"], defines={"grad": [1]})
    return builder.forward_output("y").backward_output("grad").build()


def test_a_statement_that_only_allocates_runs_right_before_what_needs_it() -> None:
    sized = at_valuation(order_problem(early_allocation()), {"n": 10})
    delayed = delayed_order(sized, sized.problem.program_order)
    names = [sized.problem.program.statements[number].name for number in delayed]
    assert names == ["save", "loss", "shrink", "fill", "use"]
    assert sized.peak(delayed) < sized.peak(sized.problem.program_order)


def test_an_order_with_nothing_to_delay_stays() -> None:
    builder = ProgramBuilder("line").dim("n", 1, 8).input("x", ["n"])
    builder.statement("f", reads=["x"], defines={"v": ["n"]}).statement("g", reads=["v"], defines={"w": ["n"]})
    sized = at_valuation(order_problem(builder.forward_output("w").build()), {"n": 3})
    assert delayed_order(sized, (0, 1)) == (0, 1)
