"""Random small programs for property tests: views, in-place writes, takeovers, run-time sizes, flags, two phases."""

from dataclasses import dataclass, field
from random import Random

from hypothesis import strategies as st

from lowtide.ir import BufferKind, Flag, Program, ProgramBuilder, verify_program
from lowtide.symbolic import compare

SHAPES = (["b"], ["b", "s"], ["2*b"], ["b", "max(s, 3)"], ["s*s"], ["3"], ["b", "floor((s + 1)/2)"])
HIGH = 4
"""Every variable lies in [1, 4] (kept in [0, 4]), so that all valuations can be tried."""


@dataclass
class _State:
    rng: Random
    builder: ProgramBuilder
    alive: dict[str, str] = field(default_factory=dict)  # value -> buffer
    shapes: dict[str, list[str]] = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)  # buffers that are not ours
    outputs: set[str] = field(default_factory=set)  # buffers under forward outputs
    kept_known: bool = False
    count: int = 0

    def new(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def pick(self, most: int) -> list[str]:
        names = list(self.alive)
        return self.rng.sample(names, min(len(names), self.rng.randint(1, most)))

    def shape(self) -> list[str]:
        if self.kept_known and self.rng.random() < 0.2:
            return ["kept"]
        return list(self.rng.choice(SHAPES))


@st.composite
def programs(draw: st.DrawFn, most: int = 9) -> Program:
    return make_program(draw(st.randoms(use_true_random=False)), most)


def make_program(rng: Random, most: int) -> Program:
    builder = ProgramBuilder("random").dim("b", 1, HIGH).dim("s", 1, HIGH)
    builder.input("x", ["b", "s"]).input("z", ["b"]).tangent("t", ["b", "s"])
    state = _State(rng, builder, {"x": "x", "z": "z"}, {"x": ["b", "s"], "z": ["b"]}, {"x", "z", "t"})
    has_kept = rng.random() < 0.3
    if has_kept:
        builder.dim("kept", 0, HIGH)
    forward = rng.randint(1, most)
    for number in range(forward):
        _add_statement(state, define_kept=has_kept and number == min(1, forward - 1))
    for name in rng.sample(list(state.alive), rng.randint(0, min(2, len(state.alive)))):
        builder.forward_output(name)
        state.outputs.add(state.alive[name])
    if rng.random() < 0.7:
        builder.backward()
        state.alive["t"] = "t"
        state.shapes["t"] = ["b", "s"]
        for _ in range(rng.randint(1, most)):
            _add_statement(state)
        for name in rng.sample(list(state.alive), rng.randint(0, min(2, len(state.alive)))):
            builder.backward_output(name)
    program = builder.build(verify=False)
    verify_program(program)
    return program


def _add_statement(state: _State, *, define_kept: bool = False) -> None:
    kind = state.rng.choice(["compute"] * 5 + ["view", "write", "takeover"])
    if define_kept:
        name, value = state.new("pick"), state.new("v")
        state.builder.statement(
            name, reads=state.pick(1), defines={value: ["kept"]}, defines_dims=["kept"], allocates=False
        )
        state.alive[value], state.shapes[value], state.kept_known = value, ["kept"], True
    elif kind == "view":
        base = state.rng.choice(list(state.alive))
        view = state.new("w")
        state.builder.view(view, base, state.shapes[base])
        state.alive[view], state.shapes[view] = state.alive[base], state.shapes[base]
    elif kind == "write":
        target = state.rng.choice(list(state.alive))
        state.builder.statement(state.new("write"), reads=state.pick(2), writes=[target], flags=_flags(state.rng))
    elif kind == "takeover" and _add_takeover(state):
        pass
    else:
        _add_computation(state)


def _add_computation(state: _State) -> None:
    rng = state.rng
    reads = state.pick(3)
    defines = {state.new("v"): state.shape() for _ in range(rng.choice([1, 1, 2]))}
    pairs = [(new, old) for new in defines for old in reads if rng.random() < 0.6]
    workspace = {"scratch": rng.choice([None, 16, "4*b*s"])} if rng.random() < 0.3 else None
    state.builder.statement(
        state.new("f"), reads=reads, defines=defines, may_reuse=pairs, workspace=workspace, flags=_flags(rng),
        allocates=rng.random() < 0.85,
    )  # fmt: skip
    for name, shape in defines.items():
        state.alive[name], state.shapes[name] = name, shape


def _add_takeover(state: _State) -> bool:
    """Add a statement whose result takes over the storage of one operand in the program itself."""
    ours = [name for name, buffer in state.alive.items() if buffer not in state.foreign | state.outputs]
    if not ours:
        return False
    old = state.rng.choice(ours)
    buffer, shape = state.alive[old], state.shapes[old]
    new = state.new("v")
    state.builder.place(new, buffer, shape)
    state.builder.statement(state.new("g"), reads=[old], places=[new], may_reuse=[(new, old)])
    for name in [name for name, home in state.alive.items() if home == buffer]:
        del state.alive[name]
    state.alive[new], state.shapes[new] = buffer, shape
    return True


def _flags(rng: Random) -> list[Flag]:
    return [flag for flag in Flag if rng.random() < 0.08]


def make_reuse(rng: Random, program: Program) -> dict[str, str]:
    """Choose takeovers, mostly from the pairs that the statements permit."""
    reuse: dict[str, str] = {}
    for statement in program.statements:
        for new, old in statement.may_reuse:
            taker, taken = program.values[new].buffer, program.values[old].buffer
            foreign = program.buffers[taken].kind not in (BufferKind.INTERMEDIATE, BufferKind.TANGENT)
            fits = compare(program.buffers[taker].size, program.buffers[taken].size, program.scope).is_at_most
            if taker != taken and rng.random() < (0.02 if foreign or not fits else 0.6):
                reuse[taker] = taken
    if rng.random() < 0.1:
        names = list(program.buffers)
        reuse[rng.choice(names)] = rng.choice(names)
    return reuse
