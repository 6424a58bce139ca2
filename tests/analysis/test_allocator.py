"""Rounding to the blocks of an allocator, against sums worked by hand."""

from lowtide.analysis import allocated_footprints_at, allocated_peak_at, memory_profile
from lowtide.ir import Buffer, BufferKind, Output, Phase, Program, Statement, Value, Workspace
from lowtide.symbolic import Scope, const, dim


def _program(device: str = "cuda:0") -> Program:
    sizes = {"a": dim("n") * 4, "b": const(600), "c": const(1024), "d": const(0)}
    buffers = {name: Buffer(name, size, BufferKind.INTERMEDIATE, device) for name, size in sizes.items()}
    buffers["host"] = Buffer("host", const(4096), BufferKind.INTERMEDIATE, "cpu")
    values = {
        name: Value(name, name, "uint8", (buffer.size,), (const(1),), const(0)) for name, buffer in buffers.items()
    }
    statements = (
        Statement("s0", "make", Phase.FORWARD, defines=("a", "host")),
        Statement("s1", "make", Phase.FORWARD, reads=("a",), defines=("b", "d"), workspace=(Workspace("w", const(1)),)),
        Statement("s2", "make", Phase.FORWARD, reads=("b", "d", "host"), defines=("c",)),
    )
    return Program(
        name="blocks",
        level="kernels",
        scope=Scope({"n": (0, None)}),
        dim_names={},
        buffers=buffers,
        values=values,
        inputs=("n",),
        tangents=(),
        statements=statements,
        forward_outputs=(Output("c", None, "c"),),
    )


def test_every_buffer_is_rounded_up_and_empty_ones_take_nothing():
    profile = memory_profile(_program())
    assert allocated_footprints_at(profile, {"n": 1}).tolist() == [512, 512 + 1024 + 512, 1024 + 1024]
    assert allocated_footprints_at(profile, {"n": 0}).tolist() == [0, 1024 + 512, 2048]
    assert allocated_peak_at(profile, {"n": 200}) == 1024 + 1024 + 512


def test_only_the_device_asked_for_is_counted():
    profile = memory_profile(_program())
    assert allocated_footprints_at(profile, {"n": 1}, device="cpu").tolist() == [4096, 4096 + 512, 4096]


def test_blocks_of_one_byte_give_the_footprint():
    profile = memory_profile(_program("cpu"))
    exact = allocated_footprints_at(profile, {"n": 7}, device="cpu", block_bytes=1)
    assert exact.tolist() == profile.at({"n": 7}).tolist()
