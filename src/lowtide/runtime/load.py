"""Turns emitted source into functions."""

# These functions of torch have no type stubs.
# pyright: reportAttributeAccessIssue=false

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch._C._dynamo import guards
from torch._C._dynamo.guards import _empty_strided_cpu, _empty_strided_cuda, _reinterpret_tensor

from lowtide.runtime.emit import ALIAS


def _second_handle(tensor: torch.Tensor) -> torch.Tensor:
    """Another tensor object on the same storage, sharing its version counter.

    autograd hangs the graph on the object that forward returns. If that same object stayed in the state that
    the graph holds, neither would ever be freed.
    """
    return tensor.detach()


def _copy_if_misaligned(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy at an address that is a multiple of 16, which generated GPU kernels count on."""
    if tensor.data_ptr() % 16 == 0 or tensor.numel() == 0:
        return tensor
    length = 1 + sum((extent - 1) * step for extent, step in zip(tensor.shape, tensor.stride(), strict=True))
    return torch.as_strided(torch.as_strided(tensor, (length,), (1,)).clone(), tensor.shape, tensor.stride(), 0)


_GLOBALS: dict[str, Any] = {
    "torch": torch,
    "math": math,
    "empty_strided_cpu": _empty_strided_cpu,
    "empty_strided_cuda": _empty_strided_cuda,
    "reinterpret_tensor": _reinterpret_tensor,
    ALIAS: _second_handle,
    # What only GPU programs use: a torch without CUDA, or an older one, may lack it.
    "empty_strided_cpu_pinned": getattr(guards, "_empty_strided_cpu_pinned", None),
    "copy_if_misaligned": getattr(guards, "copy_if_misaligned", _copy_if_misaligned),
    "get_raw_stream": getattr(torch._C, "_cuda_getCurrentRawStream", None),
}


def load_functions(source: str, names: Mapping[str, Any], title: str) -> dict[str, Any]:
    """Run emitted source in a namespace of its own, with the given names as globals.

    Args:
        source: Text from `emit_program`: written by lowtide, never by a stranger.
        names: Kernels and helpers.
        title: Shown in tracebacks in the place of a file name.
    """
    namespace = {**_GLOBALS, **names}
    exec(compile(source, f"<lowtide {title}>", "exec"), namespace)
    return namespace
