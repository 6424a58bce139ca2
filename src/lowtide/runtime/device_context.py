"""The lines that make a GPU current around an emitted function, and fetch the stream that its kernels run on.

    def forward(args):                               def forward(args):
        buf0 = ...                       ->              with torch.cuda._DeviceGuard(0):
        kernel.run(buf0, stream=stream0)                     torch.cuda.set_device(0)
                                                             stream0 = get_raw_stream(0)
                                                             buf0 = ...
                                                             kernel.run(buf0, stream=stream0)

The guard puts the caller's device back. Streams are asked for at every call: the caller may have changed them.
"""

import re
from collections.abc import Sequence

from lowtide.ir import Program

_STREAM = re.compile(r"\b(?:raw_)?stream(\d+)\b")


def cuda_device(program: Program) -> int | None:
    """The index of the GPU that a program runs on; None for a program on CPU."""
    for buffer in program.buffers.values():
        kind, _, index = buffer.device.partition(":")
        if kind == "cuda":
            return int(index or 0)
    return None


def in_device_context(body: Sequence[str], device: int) -> list[str]:
    """Put the body of a function into a device guard, with the streams it mentions.

    Args:
        body: Lines of the function, indented by four spaces, its head left out.
        device: Index of the GPU.
    """
    streams = {match[0]: match[1] for line in body for match in _STREAM.finditer(line)}
    return [
        f"    with torch.cuda._DeviceGuard({device}):",
        f"        torch.cuda.set_device({device})",
        *(f"        {name} = get_raw_stream({index})" for name, index in sorted(streams.items())),
        *(f"    {line}" for line in body),
    ]
