"""Figures of NVIDIA cards that Inductor asks the driver for: enough to lower a program for a card that is not there.

Source: NVIDIA's CUDA C++ Programming Guide, table of technical specifications per compute capability, and the
data sheets of the cards. Only what changes generated code has to be right: processors, registers, threads and
shared memory. Memory is the card's nominal size.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_KIB = 1 << 10
_MIB = 1 << 20
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Card:
    """One model of GPU.

    Attributes:
        name: As users write it.
        major: Compute capability, first part.
        minor: Compute capability, second part.
        multi_processor_count: Streaming multiprocessors.
        total_memory: Bytes of device memory, nominal.
        L2_cache_size: Bytes.
        max_threads_per_multi_processor: Threads.
        shared_memory_per_block_optin: Bytes that one block can have when it asks for them.
        shared_memory_per_multiprocessor: Bytes.
    """

    name: str
    major: int
    minor: int
    multi_processor_count: int
    total_memory: int
    L2_cache_size: int
    max_threads_per_multi_processor: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    # The same for every card of the table.
    warp_size: int = 32
    max_threads_per_block: int = 1024
    regs_per_multiprocessor: int = 65536
    shared_memory_per_block: int = 48 * _KIB
    gcnArchName: str = ""  # noqa: N815 - torch asks for the field under this name, and expects it empty on NVIDIA cards


CARDS: Mapping[str, Card] = MappingProxyType(
    {
        card.name: card
        for card in (
            Card("A100", 8, 0, 108, 80 * _GIB, 40 * _MIB, 2048, 163 * _KIB, 164 * _KIB),
            Card("H100", 9, 0, 132, 80 * _GIB, 50 * _MIB, 2048, 227 * _KIB, 228 * _KIB),
            Card("H200", 9, 0, 132, 141 * _GIB, 50 * _MIB, 2048, 227 * _KIB, 228 * _KIB),
            Card("RTX4090", 8, 9, 128, 24 * _GIB, 72 * _MIB, 1536, 99 * _KIB, 100 * _KIB),
        )
    }
)
