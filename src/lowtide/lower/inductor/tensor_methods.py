"""Tensor methods that work on fake CUDA tensors in a torch without CUDA.

A few methods (`~x`, `x[...]`, `x.copy_(y)`) are written by hand in torch's Python bindings and switch to the
tensor's device before they dispatch, which fails where torch has no CUDA, fake tensor or not. Python
decompositions use them. Inside `guardless_methods` they call the operator instead, which needs no device.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch._subclasses import FakeTensor

_aten = torch.ops.aten


@contextlib.contextmanager
def guardless_methods() -> Iterator[None]:
    """Replace the methods inside the context; other tensors keep their own."""
    with contextlib.ExitStack() as stack:
        for name, replacement in _METHODS.items():
            original = getattr(torch.Tensor, name)
            stack.enter_context(mock.patch.object(torch.Tensor, name, _choose(original, replacement)))
        yield


def _choose(original: Callable[..., Any], replacement: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        wanted = isinstance(self, FakeTensor) and self.device.type == "cuda"
        return replacement(self, *args, **kwargs) if wanted else original(self, *args, **kwargs)

    return method


def _get(tensor: torch.Tensor, index: Any) -> torch.Tensor:
    """Index as Python does: integers, slices, None, Ellipsis and index tensors. Masks count as index tensors."""
    parts = list(index) if isinstance(index, tuple) else [index]
    used = sum(_axes(part) for part in parts)
    if any(part is Ellipsis for part in parts):
        place = next(i for i, part in enumerate(parts) if part is Ellipsis)
        parts[place : place + 1] = [slice(None)] * (tensor.dim() - used)
    axis = 0
    tensors: list[torch.Tensor | None] = []
    for part in parts:
        if part is None:
            tensor = _aten.unsqueeze.default(tensor, axis)
            axis += 1
        elif isinstance(part, slice):
            if part != slice(None):
                tensor = _aten.slice.Tensor(tensor, axis, part.start, part.stop, 1 if part.step is None else part.step)
            axis += 1
        elif isinstance(part, torch.Tensor):
            tensors += [None] * (axis - len(tensors))
            tensors.append(part)
            axis += _axes(part)
        else:
            tensor = _aten.select.int(tensor, axis, part)
    return _aten.index.Tensor(tensor, tensors) if tensors else _alias(tensor)


def _axes(part: Any) -> int:
    if part is None or part is Ellipsis:
        return 0
    is_mask = isinstance(part, torch.Tensor) and part.dtype == torch.bool
    return part.dim() if is_mask else 1


def _alias(tensor: torch.Tensor) -> torch.Tensor:
    return _aten.alias.default(tensor)


def _copy(tensor: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    return _aten.copy_.default(tensor, source, non_blocking)


def _nonzero(tensor: torch.Tensor, *, as_tuple: bool = False) -> Any:
    found = _aten.nonzero.default(tensor)
    return tuple(_aten.unbind.int(found, 1)) if as_tuple else found


_METHODS: dict[str, Callable[..., Any]] = {
    "__invert__": lambda tensor: _aten.bitwise_not.default(tensor),
    "__getitem__": _get,
    "copy_": _copy,
    "nonzero": _nonzero,
}
