"""Named programs with byte counts worked out by hand, shared by the tests of all stages.

Sizes are for float32, 4 bytes per element.
"""

from lowtide.ir import Flag, Program, ProgramBuilder


def diamond() -> Program:
    """One value is read by two statements whose results meet.

    a, c, d have 1024*batch bytes, b has 2048*batch.

        step 0   a            1024*batch
        step 1   a b          3072*batch
        step 2   a b c        4096*batch
        step 3     b c d      4096*batch      peak 4096*batch
    """
    return (
        ProgramBuilder("diamond")
        .dim("batch", 1, 64)
        .input("x", ["batch", 256])
        .statement("f", reads=["x"], defines={"a": ["batch", 256]}, flops="256*batch", flags=[Flag.RECOMPUTABLE])
        .statement("g", reads=["a"], defines={"b": ["batch", 512]}, flops="262144*batch", bytes_moved="3072*batch")
        .statement("h", reads=["a"], defines={"c": ["batch", 256]}, may_reuse=[("c", "a")], flops="256*batch")
        .statement("k", reads=["b", "c"], defines={"d": ["batch", 256]}, may_reuse=[("d", "c")], flops="768*batch")
        .forward_output("d")
        .build()
    )


def two_towers() -> Program:
    """Two towers, each wide and then narrow: the order decides the peak.

    p1 has 4096*batch bytes, p2 4*batch*seq, q1, q2 and y 64*batch.

        program order           towers one after the other (0, 2, 1, 3, 4)
        p1        4096*batch                       p1        4096*batch
        p1 p2     4096*batch + 4*batch*seq         p1 q1     4160*batch
        p1 p2 q1  4160*batch + 4*batch*seq         q1 p2     64*batch + 4*batch*seq
        p2 q1 q2  128*batch + 4*batch*seq          p2 q1 q2  128*batch + 4*batch*seq
        q1 q2 y   192*batch                        q1 q2 y   192*batch

    The peak of the second order depends on the shape: 4160*batch up to seq = 1008, then 128*batch + 4*batch*seq.
    """
    return (
        ProgramBuilder("two_towers")
        .dim("batch", 1, 64, called="batch")
        .dim("seq", 1, 4096, called="sequence")
        .input("x", ["batch", 16])
        .input("z", ["batch", "seq"])
        .statement("widen_1", reads=["x"], defines={"p1": ["batch", 1024]})
        .statement("widen_2", reads=["z"], defines={"p2": ["batch", "seq"]})
        .statement("narrow_1", reads=["p1"], defines={"q1": ["batch", 16]})
        .statement("narrow_2", reads=["p2"], defines={"q2": ["batch", 16]})
        .statement("join", reads=["q1", "q2"], defines={"y": ["batch", 16]}, may_reuse=[("y", "q1"), ("y", "q2")])
        .forward_output("y")
        .build()
    )


def long_skip() -> Program:
    """A training step whose first activation waits for the backward phase.

    s, y, dy, ds, dx have 256*batch bytes, t1 and t2 32*batch. dy is a tangent.

        step 0  forward   s               256*batch
        step 1            s t1            288*batch
        step 2            s t1 t2         320*batch
        step 3            s t2 y          544*batch
        step 4  backward  s y dy ds      1024*batch       peak; 768*batch if y is not held
        step 5            y ds dx         768*batch            512*batch if y is not held
    """
    return (
        ProgramBuilder("long_skip")
        .dim("batch", 1, 64)
        .input("x", ["batch", 64])
        .tangent("dy", ["batch", 64])
        .statement("enter", reads=["x"], defines={"s": ["batch", 64]})
        .statement("small_1", reads=["s"], defines={"t1": ["batch", 8]})
        .statement("small_2", reads=["t1"], defines={"t2": ["batch", 8]}, may_reuse=[("t2", "t1")])
        .statement("join", reads=["s", "t2"], defines={"y": ["batch", 64]}, may_reuse=[("y", "s")])
        .backward()
        .statement("join_backward", reads=["dy", "s"], defines={"ds": ["batch", 64]}, may_reuse=[("ds", "s")])
        .statement("enter_backward", reads=["ds"], defines={"dx": ["batch", 64]}, may_reuse=[("dx", "ds")])
        .forward_output("y")
        .backward_output("dx")
        .build()
    )


def staircase() -> Program:
    """Values that grow step by step and shrink again, each from the one before.

    u1 has 4*n bytes, u2 8*n, u3 12*n, u4 16*n, then d3 12*n, d2 8*n, d1 4*n.

        step 0   u1       4*n
        step 1   u1 u2   12*n
        step 2   u2 u3   20*n
        step 3   u3 u4   28*n      peak
        step 4   u4 d3   28*n      16*n in place
        step 5   d3 d2   20*n      16*n in place
        step 6   d2 d1   12*n      16*n in place
    """
    return (
        ProgramBuilder("staircase")
        .dim("n", 1, 1000)
        .input("x", ["n"])
        .statement("up_1", reads=["x"], defines={"u1": ["n"]})
        .statement("up_2", reads=["u1"], defines={"u2": ["2*n"]})
        .statement("up_3", reads=["u2"], defines={"u3": ["3*n"]})
        .statement("up_4", reads=["u3"], defines={"u4": ["4*n"]})
        .statement("down_3", reads=["u4"], defines={"d3": ["3*n"]}, may_reuse=[("d3", "u4")])
        .statement("down_2", reads=["d3"], defines={"d2": ["2*n"]}, may_reuse=[("d2", "d3")])
        .statement("down_1", reads=["d2"], defines={"d1": ["n"]}, may_reuse=[("d1", "d2")])
        .forward_output("d1")
        .build()
    )


def everything() -> Program:
    """A program that uses every part of the form at least once.

    x and m are inputs, w a constant, dy a tangent (4*batch*seq bytes). h has 8*batch*seq bytes; hv is a view of
    its second half; picked has 4*kept bytes, kept known only at run time; e has 4*batch*seq bytes and the
    statement that defines it needs 1024 bytes and an unknown workspace. grad takes over the storage of e.

        step 0  forward   h                       8*batch*seq
        step 1            h                       8*batch*seq                        (a view)
        step 2            h                       8*batch*seq                        (in place)
        step 3            h picked                8*batch*seq + 4*kept
        step 4            h picked e              12*batch*seq + 4*kept + 1024       (+ unknown)
        step 5  backward  h picked dy e           16*batch*seq + 4*kept              (grad in e; picked is held)
    """
    return (
        ProgramBuilder("every thing")
        .dim("batch", 1, 64, called="batch")
        .dim("seq", 2, None, called="sequence length")
        .dim("kept", 0, 4096)
        .dim("odd", 1, 9)
        .bind("odd", "seq % 8 + 1")
        .assume('the caller never changes "w"')
        .input("x", ["batch", "seq"])
        .input("m", [1])
        .constant("w", [3], "int64")
        .tangent("dy", ["batch", "seq"])
        .statement("double", reads=["x", "w"], defines={"h": ["batch", "2*seq"]}, op="triton.double<2>", flops=0)
        .view("hv", "h", ["batch", "seq"], stride=["2*seq", 1], offset="seq")
        .statement("update", reads=["hv"], writes=["m"], flags=[Flag.SIDE_EFFECT, Flag.RANDOM])
        .statement(
            "pick", reads=["hv"], defines={"picked": ["kept"]}, defines_dims=["kept"], allocates=False,
            code=["picked = pick(hv)", "kept = picked.shape[0]"], origin="model.py:12",
        )
        .statement(
            "exp", reads=["hv", "picked"], defines={"e": ["batch", "seq"]}, reads_dims=["kept"],
            workspace={"im2col": 1024, "library": None}, flops="3*batch*seq + max(seq, 8)",
            bytes_moved="12*batch*seq + floor(seq/2)", code=["exp(hv, picked, kept, out=e)", "  # two\nlines"],
        )
        .backward()
        .place("grad", "e", ["batch", "seq"])
        .statement("exp_backward", reads=["e", "dy", "hv"], places=["grad"], may_reuse=[("grad", "e")])
        .forward_output("picked")
        .backward_output("grad")
        .build()
    )  # fmt: skip


SCENARIOS = {
    "diamond": diamond,
    "two_towers": two_towers,
    "long_skip": long_skip,
    "staircase": staircase,
    "everything": everything,
}
