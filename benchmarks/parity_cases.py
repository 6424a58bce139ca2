"""The cases on which speed and compile time are compared, large enough that a step is more than overhead."""

from dataclasses import replace

from benchmarks.models import BERT, CONV_NET, LLAMA, Case, SmallConvNet, bert_model, llama_model

LLAMA_4_512 = replace(
    LLAMA,
    name="Llama 4 x 512",
    build=lambda: llama_model(hidden=512, layers=4, heads=8, vocabulary=32000),
    first=(2, 128),
    unseen=((4, 512), (3, 257)),
)
BERT_4_256 = replace(
    BERT,
    name="BERT 4 x 256",
    build=lambda: bert_model(hidden=256, layers=4, vocabulary=8000),
    is_random=False,
    first=(2, 64),
    unseen=((8, 256), (5, 191)),
)
CONV_NET_64 = replace(
    CONV_NET,
    name="conv net 64",
    build=lambda: SmallConvNet(width=64),
    first=(2, 64),
    unseen=((8, 96), (5, 61)),
)

PARITY_CASES: tuple[Case, ...] = (LLAMA_4_512, BERT_4_256, CONV_NET_64)
QUICK_CASES: tuple[Case, ...] = (CONV_NET_64,)
