"""What a profile comes to in an allocator that hands out whole blocks: `allocated_footprints_at`.

CUDA's caching allocator in torch rounds each request up to a multiple of 512 bytes, so many small tensors cost
more than their bytes:

    tensors of 4, 600 and 1024 bytes  ->  blocks of 512, 1024 and 1024 bytes: 2560 allocated for 1628 requested

Its statistics tell both: `requested_bytes.all.peak` is the footprint itself, `allocated_bytes.all.peak` (which is
`torch.cuda.max_memory_allocated`) counts blocks. A block taken from a larger cached one is not split when less than
1 MiB would be left (512 bytes for requests of at most 1 MiB), and then counts whole: the figure given here is
what a fresh allocator would count, and a lower bound once there is a cache.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from lowtide.analysis.profile import MemoryProfile
from lowtide.symbolic import Expr, compile_batch

CUDA_BLOCK_BYTES = 512
"""`kMinBlockSize` of torch's caching allocator."""


def allocated_footprints_at(
    profile: MemoryProfile, valuation: Mapping[str, int], *, device: str = "cuda", block_bytes: int = CUDA_BLOCK_BYTES
) -> npt.NDArray[np.int64]:
    """Return the bytes allocated on a device during each step, each buffer rounded up to whole blocks.

    Args:
        profile: The profile of a program.
        valuation: An integer for each dimension variable that occurs in a size.
        device: Device type; buffers elsewhere are not counted. Workspace is taken to be on this device.
        block_bytes: Bytes of a block.

    Returns:
        Bytes for each step, shape (steps,), int64. Empty buffers take no block.

    Guarantee: exact for an allocator without a cache; a lower bound with one. Workspace of unknown size is left out.
    Cost: one evaluation of each counted buffer.
    """
    program = profile.program
    places: list[tuple[int, int]] = []
    sizes: list[Expr] = []
    for name, live in profile.ranges.items():
        buffer = program.buffers[name]
        if live.start < live.stop and buffer.device.partition(":")[0] == device:
            places.append((live.start, live.stop))
            sizes.append(buffer.size)
    for step, number in enumerate(profile.order):
        for workspace in program.statements[number].workspace:
            if workspace.size is not None:
                places.append((step, step + 1))
                sizes.append(workspace.size)
    changes = np.zeros(len(profile.order) + 1, dtype=np.int64)
    for (start, stop), size in zip(places, compile_batch(sizes).integers_at(valuation), strict=True):
        blocks = -(-size // block_bytes) * block_bytes
        changes[start] += blocks
        changes[stop] -= blocks
    return np.cumsum(changes[:-1])


def allocated_peak_at(
    profile: MemoryProfile, valuation: Mapping[str, int], *, device: str = "cuda", block_bytes: int = CUDA_BLOCK_BYTES
) -> int:
    """Return the largest of `allocated_footprints_at`, in bytes; 0 for a program without statements."""
    footprints = allocated_footprints_at(profile, valuation, device=device, block_bytes=block_bytes)
    return int(footprints.max()) if len(footprints) else 0
