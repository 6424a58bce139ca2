"""A language model of transformers as a program of aten calls."""

import copy

import pytest
import torch
from aten_meter import Recorder, measured_peak, unknown_workspaces

transformers = pytest.importorskip("transformers")

# Few tokens in a large vocabulary: the sums of the embedding's gradient use atomics where tokens repeat.
VOCABULARY = 1000
SHAPES = ((2, 33), (3, 7), (2, 61))


def test_a_training_step_of_a_llama_has_the_bits_of_torch_and_a_predicted_peak():
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=VOCABULARY, use_cache=False,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config)
    reference = copy.deepcopy(model)
    recorder = Recorder()
    ours = torch.compile(model, backend=recorder, dynamic=True)
    theirs = torch.compile(reference, backend="aot_eager_decomp_partition", dynamic=True)

    for number, shape in enumerate(SHAPES):
        ids = torch.randperm(VOCABULARY)[: shape[0] * shape[1]].view(shape)
        mask = torch.ones_like(ids)

        def run(compiled: torch.nn.Module, ids: torch.Tensor = ids, mask: torch.Tensor = mask) -> object:
            out = compiled(input_ids=ids, attention_mask=mask, labels=ids)
            out.loss.backward()
            return out

        for module in (model, reference):
            module.zero_grad()
        if number == 0:
            run(ours)
            model.zero_grad()
        measured = measured_peak(lambda run=run: run(ours))
        run(theirs)
        assert recorder.predicted_peak() == measured, shape
        for (name, found), (_, expected) in zip(model.named_parameters(), reference.named_parameters(), strict=True):
            assert torch.equal(found.grad, expected.grad), (name, shape)
    assert not unknown_workspaces(recorder.program)
