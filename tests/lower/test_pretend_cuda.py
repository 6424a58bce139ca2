"""Training steps lowered for a GPU that is not there: programs that verify, whose roles the kernels' text confirms."""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

pytest.importorskip("triton", reason="Triton prints the kernels; it needs no GPU for that: pip install triton")

from lowtide.analysis import allocated_peak_at, memory_profile
from lowtide.ir import BufferKind, Phase, Program, Statement, verify_program
from lowtide.lower.inductor.lower_elsewhere import lower_on_pretended_device
from lowtide.lower.joint import Joint
from lowtide.lower.pretend_cuda import Card, lower_for_cuda
from lowtide.runtime.emit import emit_program
from lowtide.symbolic import const
from tests.lower.triton_source import KernelText, kernels_in

pytestmark = [pytest.mark.pretended_cuda, pytest.mark.slow]


@dataclass(frozen=True)
class Lowered:
    program: Program
    joint: Joint
    kernels: Mapping[str, KernelText]


def lower(model: Callable[..., Any], **inputs: Any) -> Lowered:
    torch._dynamo.reset()
    program, joint = lower_on_pretended_device(model, (), inputs, card="H100")
    kernels = kernels_in(joint.forward.source)
    if joint.backward is not None:
        kernels |= {f"b_{name}": text for name, text in kernels_in(joint.backward.source).items()}
    return Lowered(program, joint, kernels)


def llama() -> Lowered:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(**sizes, num_hidden_layers=1, vocab_size=211, use_cache=False))
    tokens = torch.randint(0, 211, (2, 24))
    return lower(model, input_ids=tokens, labels=tokens)


def bert() -> Lowered:
    from transformers import BertConfig, BertForMaskedLM

    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_hidden_layers": 1}
    model = BertForMaskedLM(BertConfig(**sizes, vocab_size=211, attention_probs_dropout_prob=0.0))
    tokens = torch.randint(0, 211, (2, 24))
    mask = torch.ones_like(tokens)
    mask[0, 12:] = 0
    return lower(model, input_ids=tokens, attention_mask=mask, labels=tokens)


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.pool = nn.MaxPool2d(2)
        self.second = nn.Conv2d(8, 16, 3, padding=1)
        self.head = nn.Linear(16, 10)

    def forward(self, pictures: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.pool(torch.relu(self.norm(self.first(pictures))))
        return nn.functional.cross_entropy(self.head(self.second(x).mean((2, 3))), labels)


def conv_net() -> Lowered:
    return lower(ConvNet(), pictures=torch.randn(4, 3, 32, 32), labels=torch.randint(0, 10, (4,)))


@pytest.fixture(scope="module", params=[llama, bert, conv_net], ids=lambda build: build.__name__)
def lowered(request: pytest.FixtureRequest) -> Lowered:
    """One model, lowered once for all tests of this file that look at it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return request.param()


def test_the_program_verifies_and_lives_on_the_card(lowered: Lowered):
    program = lowered.program
    verify_program(program)
    assert 0 < program.first_backward < len(program.statements)
    devices = {buffer.device for buffer in program.buffers.values()}
    assert "cuda:0" in devices
    assert devices <= {"cuda:0", "cpu"}
    # What is on the host is numbers: at most one element.
    assert all(max_bytes(program, name) <= 8 for name, buffer in program.buffers.items() if buffer.device == "cpu")
    assert any("pretended H100" in assumption for assumption in program.assumptions)


def max_bytes(program: Program, name: str) -> int:
    size = program.buffers[name].size
    return size.constant_value if size.is_constant else 1 << 62


def test_roles_are_those_of_the_kernels_text(lowered: Lowered):
    checked = 0
    for statement in lowered.program.statements:
        for kernel, arguments in triton_calls(statement):
            text = lowered.kernels[kernel_name(kernel, statement, lowered.kernels)]
            actual = dict(zip(text.parameters, arguments, strict=False))
            assert len(arguments) >= len(text.parameters), statement.name
            loaded = {actual[p] for p in text.read} & lowered.program.values.keys()
            stored = {actual[p] for p in text.written} & lowered.program.values.keys()
            # A parameter that the body never mentions is a result that fusion left without use.
            named = set(arguments) & lowered.program.values.keys()
            unused = named - loaded - stored
            assert stored <= {*statement.writes, *statement.defines}, f"{statement.name} stores {stored}"
            assert loaded - stored <= set(statement.reads), f"{statement.name} loads {loaded}"
            assert {*statement.writes, *statement.defines} <= stored | unused, f"{statement.name} writes too much"
            assert set(statement.reads) <= loaded | unused | stored, f"{statement.name} reads too much"
            checked += 1
    assert checked >= 10


def triton_calls(statement: Statement) -> list[tuple[str, list[str]]]:
    calls: list[tuple[str, list[str]]] = []
    for line in statement.code:
        node = ast.parse(line).body[0]
        call = node.value if isinstance(node, ast.Expr) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "run":
            assert isinstance(call.func.value, ast.Name)
            calls.append((call.func.value.id, [value_name(argument) for argument in call.args]))
    return calls


def value_name(argument: ast.expr) -> str:
    """The value under an argument; a number of the host is passed as `value.item()`."""
    return ast.unparse(argument).removesuffix(".item()")


def kernel_name(called: str, statement: Statement, kernels: Mapping[str, KernelText]) -> str:
    # Forward and backward may share a kernel of equal text; then it goes by forward's name.
    plain = statement.phase is Phase.FORWARD or called in kernels
    return called if plain else f"b_{called}"


def test_emitted_code_is_python_with_a_guard_and_a_stream_in_both_functions(lowered: Lowered):
    source = emit_program(lowered.program).source
    compile(source, "emitted", "exec")
    forward, backward = source.split("def backward", 1)
    for text in (forward, backward):
        assert text.count("with torch.cuda._DeviceGuard(0):") == 1
        assert text.count("get_raw_stream(0)") == 1
        assert text.index("get_raw_stream") < text.index(".run(")
    assert allocations(source) <= {"empty_strided_cuda", "empty_strided_cpu"}


def allocations(source: str) -> set[str]:
    names = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    return {name for name in names if name.startswith("empty_strided")}


def test_sizes_follow_the_shape(lowered: Lowered):
    profile = memory_profile(lowered.program)
    small, large = (profile.peak_at(shape) for shape in (at(lowered, 2, 24), at(lowered, 4, 48)))
    assert 0 < small.bytes < large.bytes
    rounded = allocated_peak_at(profile, at(lowered, 4, 48))
    assert rounded % 512 == 0
    on_card = sum(b.size_bytes for b in large.buffers if lowered.program.buffers[b.name].device == "cuda:0")
    assert on_card <= rounded <= large.bytes + 512 * len(lowered.program.buffers)


def at(lowered: Lowered, batch: int, length: int) -> dict[str, int]:
    """A valuation: free variables by name, derived ones by their own code."""
    names = lowered.program.dim_names
    valuation = {dim: batch if names.get(dim) == "batch" else length for dim in names}
    for binding in lowered.program.entry_dims:
        if binding.code and binding.dim not in valuation:
            valuation[binding.dim] = eval(binding.code, {"math": __import__("math")}, dict(valuation))
    return valuation


def test_libraries_have_named_workspaces(lowered: Lowered):
    named = {name for _, name in memory_profile(lowered.program).unknown_workspace}
    assert "cuBLAS workspace" in named
    assert named <= {"cuBLAS workspace", "cuDNN workspace", "attention workspace"}


def test_attention_is_that_of_the_card(lowered: Lowered):
    operators = {statement.op for statement in lowered.program.statements if "attention" in statement.op}
    assert not any("for_cpu" in operator for operator in operators)
    if lowered.kernels and any("embedding" in name for name in lowered.kernels):
        assert any("efficient_attention_backward" in operator for operator in operators)


def test_half_precision_without_a_mask_takes_flash_attention():
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.project = nn.Linear(32, 96, dtype=torch.bfloat16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q, k, v = self.project(x).view(x.shape[0], x.shape[1], 2, 48).transpose(1, 2).split(16, -1)
            return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).sum()

    program = lower_for_cuda(Attention(), torch.randn(2, 24, 32, dtype=torch.bfloat16), card="A100")
    verify_program(program)
    operators = " ".join(statement.op for statement in program.statements)
    assert "_scaled_dot_product_flash_attention.default" in operators
    assert "_scaled_dot_product_flash_attention_backward.default" in operators


def test_inference_and_a_constant_that_lives_on_the_card():
    def scale(x: torch.Tensor) -> torch.Tensor:
        return (x * torch.tensor([float(i) for i in range(12)])).sum(0)  # more than Inductor writes into a kernel

    with torch.no_grad():
        program = lower_for_cuda(scale, torch.randn(6, 12), card="RTX4090")
    verify_program(program)
    assert program.first_backward == len(program.statements)
    constants = {b.device: b.size for b in program.buffers.values() if b.kind is BufferKind.CONSTANT}
    assert constants["cuda:0"] == const(48)
    compile(emit_program(program).source, "emitted", "exec")


def test_workspaces_of_kernels_are_buffers():
    from torch._inductor import config

    def total(x: torch.Tensor) -> torch.Tensor:
        return x.sum(-1)

    with torch.no_grad(), config.patch({"triton.force_cooperative_reductions": True}):
        torch._dynamo.reset()
        program = lower_for_cuda(
            total, torch.randn(6, 9000), card=Card("small", 9, 0, 16, 1 << 34, 1 << 24, 2048, 1 << 17, 1 << 17)
        )
    verify_program(program)
    semaphores = [name for name in program.buffers if name.startswith("semaphores")]
    workspaces = [name for name in program.buffers if name.startswith("workspace")]
    assert len(semaphores) == len(workspaces) == 1
    zeroed = [statement for statement in program.statements if statement.op == "zero_"]
    assert [statement.defines for statement in zeroed] == [(semaphores[0],)]
    kernel = next(statement for statement in program.statements if statement.op.startswith("triton"))
    assert semaphores[0] in kernel.writes
    assert workspaces[0] in kernel.defines
