"""How large the demo is: chosen so that all of it takes under five minutes on two cores."""

from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True, slots=True)
class Settings:
    """Sizes of the model and of the data.

    Attributes:
        samples: Functions read from the standard library.
        vocabulary: Tokens that the tokenizer learns.
        batch: Samples in a batch.
        longest: Longest sample, in tokens.
        steps: Batches trained on by each column.
        hidden, layers, heads: Of the Llama.
        learning_rate: Of AdamW.
        seed: Of the weights and of the order of the batches.
    """

    samples: int = 2400
    vocabulary: int = 2048
    batch: int = 8
    longest: int = 512
    steps: int = 48
    hidden: int = 256
    layers: int = 4
    heads: int = 8
    learning_rate: float = 1e-3
    seed: int = 0


def make_model(settings: Settings) -> nn.Module:
    """Build the Llama of `transformers`, unmodified, with the random weights that the seed gives."""
    import torch

    from benchmarks.models import llama_model

    torch.manual_seed(settings.seed)
    return llama_model(
        hidden=settings.hidden,
        layers=settings.layers,
        heads=settings.heads,
        vocabulary=settings.vocabulary,
        positions=settings.longest,
    )
