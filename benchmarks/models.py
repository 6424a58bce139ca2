"""The models that the benchmarks and the demo run: tiny, built offline with random weights, on sizes that vary.

Every case can build its model from a fixed seed, make a batch of any admitted shape, and run the loss of a
batch. A shape is `(batch, length)`: for language models the sequence length in tokens, for Whisper the number
of target tokens, for pictures the side in patches (ViT) or in pixels (the convolutional net).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Shape = tuple[int, int]

# Compiled at the first, run at the rest: batch 1, odd and prime lengths, and both sides of 192 and 768 tokens,
# where CPU attention changes the size of its blocks.
TEXT_FIRST: Shape = (2, 64)
TEXT_UNSEEN: tuple[Shape, ...] = ((3, 37), (2, 191), (4, 197), (1, 101), (2, 761), (1, 773))
VOCABULARY = 503


def _text_sizes(batch: int, length: int) -> dict[str, int]:
    return {"batch": batch, "sequence": length}


@dataclass(frozen=True, slots=True)
class Case:
    """One architecture and the shapes it is run at.

    Attributes:
        name: What the tables call it.
        build: Make the model; weights come from the current random state.
        inputs: Make the keyword arguments of one call for (batch, length), labels included.
        first: The shape that is compiled.
        unseen: Shapes that the compiled model has not seen.
        sizes: The named dimensions of lowtide's formulas at (batch, length).
        is_random: Whether training draws random numbers, which eager draws differently.
    """

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[int, int, torch.Generator], dict[str, Any]]
    first: Shape = TEXT_FIRST
    unseen: tuple[Shape, ...] = TEXT_UNSEEN
    sizes: Callable[[int, int], dict[str, int]] = _text_sizes
    is_random: bool = False

    def make_model(self, seed: int = 0) -> nn.Module:
        """Build the model with the weights that `seed` gives; the global random state is put back."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.build()

    def make(self, batch: int, length: int, seed: int = 0) -> dict[str, Any]:
        """Make the keyword arguments of one call; the same seed and shape give the same numbers."""
        return self.inputs(batch, length, torch.Generator().manual_seed(seed))


def chosen(cases: Sequence[Case], only: str) -> list[Case]:
    """The cases whose name contains `only`; all of them where it is empty."""
    return [case for case in cases if only.lower() in case.name.lower()]


def loss_of(model: Callable[..., Any], inputs: Mapping[str, Any]) -> Tensor:
    """Run the model on one batch and return its loss, whatever way it hands it over."""
    result = model(**inputs)
    return result if isinstance(result, Tensor) else result.loss


def _tokens(batch: int, length: int, generator: torch.Generator) -> Tensor:
    return torch.randint(3, VOCABULARY, (batch, length), generator=generator)


def _language_inputs(batch: int, length: int, generator: torch.Generator) -> dict[str, Any]:
    tokens = _tokens(batch, length, generator)
    return {"input_ids": tokens, "labels": tokens, "use_cache": False}


def _llama() -> nn.Module:
    return llama_model()


def llama_model(
    *, hidden: int = 64, layers: int = 2, heads: int = 4, vocabulary: int = VOCABULARY, positions: int = 1024
) -> nn.Module:
    """Build a Llama with random weights and grouped key-value heads of half the number."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=hidden,
            intermediate_size=hidden * 11 // 4,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=max(1, heads // 2),
            max_position_embeddings=positions,
            pad_token_id=0,
        )
    )


def _qwen2() -> nn.Module:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=VOCABULARY,
            hidden_size=64,
            intermediate_size=176,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=1024,
            tie_word_embeddings=True,
        )
    )


def _mixtral() -> nn.Module:
    from transformers import MixtralConfig, MixtralForCausalLM

    return MixtralForCausalLM(
        MixtralConfig(
            vocab_size=VOCABULARY,
            hidden_size=64,
            intermediate_size=96,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            num_local_experts=4,
            num_experts_per_tok=2,
            max_position_embeddings=1024,
        )
    )


def _gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=1024,
            n_embd=64,
            n_layer=2,
            n_head=4,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=1,
            eos_token_id=2,
        )
    )


def _bert() -> nn.Module:
    return bert_model(dropout=0.1)  # random numbers in the program


def bert_model(*, hidden: int = 64, layers: int = 2, vocabulary: int = VOCABULARY, dropout: float = 0.0) -> nn.Module:
    """Build a BERT with random weights; dropout leaves attention alone, so that its fused kernel is used."""
    from transformers import BertConfig, BertForMaskedLM

    return BertForMaskedLM(
        BertConfig(
            vocab_size=vocabulary,
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=4,
            intermediate_size=2 * hidden,
            max_position_embeddings=1024,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=0.0,
        )
    )


def _bert_inputs(batch: int, length: int, generator: torch.Generator) -> dict[str, Any]:
    tokens = _tokens(batch, length, generator)
    mask = torch.ones_like(tokens)
    mask[0, length // 2 :] = 0  # the first sample is padded
    return {"input_ids": tokens, "attention_mask": mask, "labels": tokens}


def _t5() -> nn.Module:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(vocab_size=VOCABULARY, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, dropout_rate=0.0)
    config.update({"decoder_start_token_id": 0})
    return T5ForConditionalGeneration(config)


def _t5_inputs(batch: int, length: int, generator: torch.Generator) -> dict[str, Any]:
    source = _tokens(batch, length, generator)
    target = _tokens(batch, length // 3 + 5, generator)  # a second, independent length for the compiler
    return {"input_ids": source, "labels": target, "use_cache": False}


def _t5_sizes(batch: int, length: int) -> dict[str, int]:
    return {"batch": batch, "sequence": length, "label_sequence": length // 3 + 5}


def _vit() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        image_size=64,
        patch_size=8,
    )
    # Left out, transformers writes the problem type into the config on the first call, and the second one recompiles.
    config.update({"num_labels": 10, "problem_type": "single_label_classification"})
    return ViTForImageClassification(config)


def _vit_inputs(batch: int, length: int, generator: torch.Generator) -> dict[str, Any]:
    side = 8 * length
    return {
        "pixel_values": torch.randn(batch, 3, side, side, generator=generator),
        "labels": torch.randint(0, 10, (batch,), generator=generator),
        "interpolate_pos_encoding": True,
    }


def _vit_sizes(batch: int, length: int) -> dict[str, int]:
    return {"batch": batch, "height": 8 * length, "width": 8 * length}


def _whisper() -> nn.Module:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    return WhisperForConditionalGeneration(
        WhisperConfig(
            vocab_size=VOCABULARY,
            num_mel_bins=16,
            d_model=64,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=128,
            decoder_ffn_dim=128,
            max_source_positions=100,
            max_target_positions=1024,
            dropout=0.0,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
        )
    )


def _whisper_inputs(batch: int, length: int, generator: torch.Generator) -> dict[str, Any]:
    return {
        "input_features": torch.randn(batch, 16, 200, generator=generator),
        "labels": _tokens(batch, length, generator),
        "use_cache": False,
    }


def _whisper_sizes(batch: int, length: int) -> dict[str, int]:
    return {"batch": batch, "label_sequence": length}


class SmallConvNet(nn.Module):
    """Convolutions, batch norm and pooling over images of any size; returns the loss."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
        )
        self.head = nn.Linear(2 * width, 10)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """Classify images (batch, 3, height, width) and return the mean cross entropy."""
        return nn.functional.cross_entropy(self.head(self.features(images).flatten(1)), labels)


def _conv_inputs(batch: int, length: int, generator: torch.Generator) -> dict[str, Any]:
    return {
        "images": torch.randn(batch, 3, length, length, generator=generator),
        "labels": torch.randint(0, 10, (batch,), generator=generator),
    }


def _conv_sizes(batch: int, length: int) -> dict[str, int]:
    return {"batch": batch, "height": length, "width": length}


def _gpt2_sizes(batch: int, length: int) -> dict[str, int]:
    # The loss is a program of its own, and the labels are inputs of it that no other program has seen.
    return {**_text_sizes(batch, length), "batch_2": batch, "label_sequence": length}


LLAMA = Case("Llama", _llama, _language_inputs)
QWEN2 = Case("Qwen2", _qwen2, _language_inputs)
BERT = Case("BERT", _bert, _bert_inputs, is_random=True)
T5 = Case("T5", _t5, _t5_inputs, sizes=_t5_sizes)
# Sequence = patches + 1: 14 x 14 + 1 = 197 and 28 x 28 + 1 = 785 lie above the block changes, 13 x 13 + 1 below.
VIT = Case(
    "ViT",
    _vit,
    _vit_inputs,
    (2, 9),
    ((3, 7), (2, 13), (4, 14), (1, 11), (2, 27), (1, 28)),
    _vit_sizes,
)
WHISPER = Case("Whisper", _whisper, _whisper_inputs, sizes=_whisper_sizes)
MIXTRAL = Case("Mixtral", _mixtral, _language_inputs)
GPT2 = Case("GPT-2", _gpt2, _language_inputs, sizes=_gpt2_sizes)
CONV_NET = Case(
    "conv net",
    SmallConvNet,
    _conv_inputs,
    (2, 32),
    ((3, 29), (5, 31), (4, 48), (1, 37), (7, 64), (1, 61)),
    _conv_sizes,
)

CASES: tuple[Case, ...] = (LLAMA, QWEN2, BERT, T5, VIT, WHISPER, MIXTRAL, GPT2, CONV_NET)
