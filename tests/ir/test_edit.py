import pytest

from lowtide.ir import EditError, reorder, replace_buffers, verify_program
from tests.scenarios import diamond, staircase, two_towers


def test_reorder_moves_statements_and_nothing_else():
    program = two_towers()
    moved = reorder(program, (0, 2, 1, 3, 4))
    assert [statement.name for statement in moved.statements] == ["widen_1", "narrow_1", "widen_2", "narrow_2", "join"]
    assert moved.values == program.values
    assert reorder(program, range(5)) == program
    verify_program(moved)


@pytest.mark.parametrize("order", [(), (0, 1, 2), (0, 1, 2, 2), (1, 2, 3, 4)])
def test_reorder_wants_a_permutation(order: tuple[int, ...]):
    with pytest.raises(EditError, match="not a permutation"):
        reorder(diamond(), order)


def test_replace_buffers_follows_chains():
    program = replace_buffers(staircase(), {"d2": "d3", "d3": "u4"})
    assert program.values["d2"].buffer == program.values["d3"].buffer == "u4"
    assert set(staircase().buffers) - set(program.buffers) == {"d2", "d3"}
    verify_program(program)


def test_replace_buffers_wants_known_buffers_and_no_circle():
    with pytest.raises(EditError, match="no such buffer"):
        replace_buffers(diamond(), {"a": "nothing"})
    with pytest.raises(EditError, match="no such buffer"):
        replace_buffers(diamond(), {"nothing": "a"})
    with pytest.raises(EditError, match="a -> b -> a"):
        replace_buffers(diamond(), {"a": "b", "b": "a"})
