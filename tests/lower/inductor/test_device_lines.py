"""GPU lines of a wrapper, one by one."""

from types import SimpleNamespace
from typing import Any

import pytest

from lowtide.lower.inductor.device_lines import (
    align_inputs,
    aligned_input,
    check_single_device,
    device_copy,
    triton_roles,
    use_aligned,
    without_streams,
)
from lowtide.lower.joint import GraphRecord, InputRecord, StatementRecord, TensorRecord, UnsupportedGraphError


def call(args: list[str], signature: dict[str, str], mutated: list[str] | None = None) -> Any:
    return SimpleNamespace(
        kernel_name="triton_poi_fused_0",
        call_args=args,
        triton_meta={"signature": signature},
        inductor_meta={"mutated_arg_names": mutated or []},
    )


TENSORS = {"a", "b", "c", "ws", "sem"}


def test_roles_follow_the_names_of_parameters():
    signature = {
        "in_ptr0": "*fp32",
        "in_out_ptr0": "*fp32",
        "out_ptr1": "*fp32",
        "xnumel": "i32",
        "XBLOCK": "constexpr",
    }
    assert triton_roles(call(["a", "b", "c", "64*s0"], signature), TENSORS) == (["a", "b"], ["b", "c"])


def test_a_mutated_input_is_written_too():
    signature = {"in_ptr0": "*fp32", "out_ptr0": "*fp32"}
    assert triton_roles(call(["a", "b"], signature, ["in_ptr0"]), TENSORS) == (["a"], ["a", "b"])


def test_workspace_is_written_and_semaphores_are_both():
    signature = {"in_ptr0": "*fp32", "out_ptr0": "*fp32", "ws_ptr": "*u8", "sem_ptr": "*i32", "xnumel": "i32"}
    assert triton_roles(call(["a", "b", "ws", "sem", "s0"], signature), TENSORS) == (["a", "sem"], ["b", "ws", "sem"])


def test_parameters_of_a_users_kernel_are_both():
    assert triton_roles(call(["a", "b"], {"x": "*fp32", "y": "*fp32"}), TENSORS) == (["a", "b"], ["a", "b"])


def test_a_number_of_the_host_is_read():
    assert triton_roles(call(["a.item()", "b"], {"in_ptr0": "fp32", "out_ptr0": "*fp32"}), TENSORS) == (["a"], ["b"])


def test_sizes_that_are_constants_of_the_kernel_are_passed_all_the_same():
    signature = {"in_ptr0": "*fp32", "out_ptr0": "*fp32", "xnumel": "constexpr", "XBLOCK": "constexpr"}
    assert triton_roles(call(["a", "b", "1"], signature), TENSORS) == (["a"], ["b"])


def test_more_arguments_than_parameters_is_refused():
    with pytest.raises(UnsupportedGraphError, match="more arguments"):
        triton_roles(call(["a", "b"], {"in_ptr0": "*fp32"}), TENSORS)


def test_streams_are_left_out():
    assert without_streams(("stream0 = get_raw_stream(0)", "k.run(a, stream=stream0)")) == ("k.run(a, stream=stream0)",)
    assert without_streams(("raw_stream1 = get_raw_stream(1)",)) == ()


def test_copies_between_devices():
    copy = device_copy(("reinterpret_tensor(a, (4,), (1,), 0).copy_(b, False)",), TENSORS)
    assert copy is not None
    assert (copy.reads, copy.writes) == (("b",), ("a",))
    assert device_copy(("a = b + c",), TENSORS) is None


def test_aligned_inputs_go_by_a_new_name():
    assert aligned_input(("a = copy_if_misaligned(a)",)) == "a"
    assert aligned_input(("a = copy_if_misaligned(b)",)) is None
    statement = StatementRecord("k", ("k.run(a, b)",), reads=("a", "b"), may_reuse=(("c", "a"),))
    use_aligned(statement, {"a": "a_aligned"})
    assert statement.code == ("k.run(a_aligned, b)",)
    assert statement.reads == ("a_aligned", "b")
    assert statement.may_reuse == (("c", "a_aligned"),)


def test_inputs_are_aligned_at_the_start_where_the_wrapper_does_not():
    inputs = [InputRecord(name, tensor=TensorRecord(name, "float32", (), (), 0, 4, "cuda:0")) for name in "abc"]
    statements = [
        StatementRecord("k", ("k.run(a, b, x)",), reads=("a", "b"), writes=("x",)),
        StatementRecord("add_", ("add_(b)",), reads=("b",), writes=("b",)),
    ]
    record = GraphRecord(
        inputs=inputs,
        statements=statements,
        allocations={},
        outputs=[],
        constants={},
        precomputed={},
        ranges={},
        sources={},
        output_strides=[],
        replacements={},
    )
    align_inputs(record, [0, 1, 2])
    # b is changed in place, and nobody uses c.
    assert [statement.op for statement in record.statements] == ["align", "k", "add_"]
    assert record.statements[0].code == ("a_aligned = copy_if_misaligned(a)",)
    assert record.statements[0].views == {"a_aligned": "a"}
    assert record.statements[1].code == ("k.run(a_aligned, b, x)",)


def test_two_gpus_are_refused():
    check_single_device({0}, "graph 0")
    with pytest.raises(UnsupportedGraphError, match="several GPUs"):
        check_single_device({0, 1}, "graph 0")
