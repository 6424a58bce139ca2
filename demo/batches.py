"""From text to batches that are padded only to their own longest sample."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor

from demo.corpus import Sample

PAD, DOCSTRING, CODE, END = "<pad>", "<docstring>", "<code>", "<end>"
_NOT_SCORED = -100  # the label that the loss leaves out


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples padded to the longest of them.

    Attributes:
        input_ids: Tokens, (batch, sequence).
        attention_mask: 1 where there is a token, 0 where there is padding.
        labels: The tokens of the code and its end; docstring and padding are not scored.
    """

    input_ids: Tensor
    attention_mask: Tensor
    labels: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """Batch size and padded length."""
        return (self.input_ids.shape[0], self.input_ids.shape[1])

    @property
    def tokens(self) -> int:
        """Number of tokens without the padding."""
        return int(self.attention_mask.sum())

    def sizes(self) -> dict[str, int]:
        """Give the named dimensions of lowtide's formulas."""
        return {"batch": self.shape[0], "sequence": self.shape[1]}

    def inputs(self) -> dict[str, Tensor | bool]:
        """Give the keyword arguments of a call of the model."""
        return {
            "input_ids": self.input_ids,
            "attention_mask": self.attention_mask,
            "labels": self.labels,
            "use_cache": False,
        }


def train_tokenizer(samples: Sequence[Sample], vocabulary: int) -> Tokenizer:
    """Train a byte-level BPE tokenizer on the samples."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, DOCSTRING, CODE, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((text for sample in samples for text in (sample.docstring, sample.code)), trainer)
    return tokenizer


def make_batches(
    samples: Sequence[Sample], tokenizer: Tokenizer, *, batch: int, longest: int, count: int, seed: int
) -> list[Batch]:
    """Make `count` batches of `batch` samples of about equal length each, in random order.

    Samples longer than `longest` tokens are left out. Grouping by length keeps the padding small, and lets
    the length differ from batch to batch as much as it does from sample to sample.
    """
    encoded = [tokens for tokens in (_encode(sample, tokenizer) for sample in samples) if len(tokens.ids) <= longest]
    generator = random.Random(seed)
    generator.shuffle(encoded)
    chosen = sorted(encoded[: batch * count], key=lambda tokens: len(tokens.ids))
    batches = [_pad(chosen[start : start + batch]) for start in range(0, len(chosen), batch)]
    generator.shuffle(batches)
    return batches


@dataclass(frozen=True, slots=True)
class _Encoded:
    """One sample in tokens; the first `given` of them are not scored."""

    ids: list[int]
    given: int


def _encode(sample: Sample, tokenizer: Tokenizer) -> _Encoded:
    given = tokenizer.encode(DOCSTRING + sample.docstring + CODE).ids
    wanted = tokenizer.encode(sample.code + END).ids
    return _Encoded(given + wanted, len(given))


def _pad(group: Sequence[_Encoded]) -> Batch:
    width = max(len(sample.ids) for sample in group)
    pad_id = 0
    rows = [sample.ids + [pad_id] * (width - len(sample.ids)) for sample in group]
    masks = [[1] * len(sample.ids) + [0] * (width - len(sample.ids)) for sample in group]
    labels = [
        [_NOT_SCORED] * sample.given + sample.ids[sample.given :] + [_NOT_SCORED] * (width - len(sample.ids))
        for sample in group
    ]
    return Batch(torch.tensor(rows), torch.tensor(masks), torch.tensor(labels))
