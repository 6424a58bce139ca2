from lowtide.analysis import Dependence, DependenceKind, dependences, is_valid_order
from lowtide.ir import Flag, ProgramBuilder
from tests.scenarios import diamond, everything, long_skip


def test_diamond_has_four_reads():
    graph = dependences(diamond())
    assert graph.predecessors == ((), (0,), (0,), (1, 2))
    assert graph.successors == ((1, 2), (3,), (3,), ())
    assert {edge.kind for edge in graph.edges} == {DependenceKind.READ_AFTER_WRITE}
    assert Dependence(0, 1, DependenceKind.READ_AFTER_WRITE, "a") in graph.edges


def test_orders_that_respect_the_diamond():
    assert is_valid_order(diamond(), (0, 2, 1, 3))
    assert not is_valid_order(diamond(), (1, 0, 2, 3))
    assert not dependences(diamond()).is_order((0, 1, 2))
    assert not dependences(diamond()).is_order((0, 1, 2, 2))


def test_in_place_writes_stay_between_their_neighbours():
    program = (
        ProgramBuilder("writes").dim("n").input("x", ["n"])
        .statement("make", reads=["x"], defines={"a": ["n"]})  # 0
        .view("v", "a", ["n"])  # 1
        .statement("before", reads=["v"], defines={"b": ["n"]})  # 2
        .statement("change", writes=["a"])  # 3
        .statement("after", reads=["v"], defines={"c": ["n"]})  # 4
        .statement("again", writes=["v"])  # 5
        .forward_output("b", "c").build()
    )  # fmt: skip
    edges = {(edge.before, edge.after, edge.kind) for edge in dependences(program).edges}
    assert (2, 3, DependenceKind.WRITE_AFTER_READ) in edges
    assert (1, 3, DependenceKind.WRITE_AFTER_READ) in edges
    assert (0, 3, DependenceKind.WRITE_AFTER_WRITE) in edges
    assert (3, 4, DependenceKind.READ_AFTER_WRITE) in edges
    assert (1, 4, DependenceKind.USE_OF_VIEW) in edges
    assert (4, 5, DependenceKind.WRITE_AFTER_READ) in edges
    assert (3, 5, DependenceKind.WRITE_AFTER_WRITE) in edges


def test_a_takeover_comes_after_all_readers_of_what_it_destroys():
    program = (
        ProgramBuilder("takeover").dim("n").input("x", ["n"]).place("b", "a", ["n"])
        .statement("make", reads=["x"], defines={"a": ["n"]})
        .statement("read", reads=["a"], defines={"c": ["n"]})
        .statement("take", reads=["a"], places=["b"], may_reuse=[("b", "a")])
        .forward_output("b", "c").build()
    )  # fmt: skip
    assert Dependence(1, 2, DependenceKind.WRITE_AFTER_READ, "a") in dependences(program).edges


def test_views_of_inputs_do_not_depend_on_each_other():
    program = (
        ProgramBuilder("views").dim("n").input("x", ["n"]).view("v", "x", ["n"]).view("w", "x", ["n"])
        .forward_output("v", "w").build()
    )  # fmt: skip
    assert dependences(program).edges == ()


def test_run_time_sizes_and_flags_keep_their_order():
    edges = {(edge.before, edge.after, edge.kind, edge.subject) for edge in dependences(everything()).edges}
    assert (3, 4, DependenceKind.RUN_TIME_DIM, "kept") in edges
    for flag, kind in (
        (Flag.RANDOM, DependenceKind.RANDOM),
        (Flag.COLLECTIVE, DependenceKind.COLLECTIVE),
        (Flag.SIDE_EFFECT, DependenceKind.SIDE_EFFECT),
    ):
        builder = ProgramBuilder("flags").dim("n").input("x", ["n"])
        for name in ("a", "b", "c"):
            builder.statement(f"f_{name}", reads=["x"], defines={name: ["n"]}, flags=[flag])
        graph = dependences(builder.forward_output("a", "b", "c").build())
        assert [(edge.before, edge.after, edge.kind) for edge in graph.edges] == [(0, 1, kind), (1, 2, kind)]


def test_the_boundary_stands_without_an_edge():
    program = (
        ProgramBuilder("phases").dim("n").input("x", ["n"])
        .statement("f", reads=["x"], defines={"a": ["n"]}).backward()
        .statement("g", reads=["x"], defines={"b": ["n"]}).backward_output("b").build()
    )  # fmt: skip
    graph = dependences(program)
    assert graph.edges == ()
    assert graph.boundary == 1
    assert not graph.is_order((1, 0))
    assert dependences(long_skip()).boundary == 4
