"""Calls under saved-tensor hooks go another way.

`torch.utils.checkpoint`, `save_on_cpu` and the like replace every tensor that autograd saves by something else.
The state of a program is opaque to them: under such hooks nothing would be recomputed or offloaded, silently. So a
call that would save its state under hooks runs the same graph on torch's own path, where autograd saves tensors.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._C._autograd import _top_saved_tensors_default_hooks


def saved_tensor_hooks_are_active() -> bool:
    """Whether something on this thread replaces the tensors that autograd saves."""
    return _top_saved_tensors_default_hooks(True) is not None


class HookedCalls:
    """A compiled graph in two forms, each made when it is first needed.

    Args:
        program: The graph as a lowtide program.
        plain: The graph on torch's own path.

    Either is a callable, or a `Lazy` one.
    """

    def __init__(self, program: Callable[..., Any], plain: Callable[..., Any]) -> None:
        self._program = program
        self._plain = plain

    def __call__(self, *args: Any) -> Any:
        """Run the form that this call needs."""
        if saved_tensor_hooks_are_active() and _would_save(args):
            return self._plain(*args)
        return self._program(*args)


class Lazy:
    """A callable that is made at its first call.

    Args:
        make: Makes it. Called once; the object forgets it then.
    """

    def __init__(self, make: Callable[[], Callable[..., Any]]) -> None:
        self._make: Callable[[], Callable[..., Any]] | None = make
        self._made: Callable[..., Any] | None = None

    def __call__(self, *args: Any) -> Any:
        """Make the callable if this is the first call, and call it."""
        make = self._make
        if make is not None:
            self._made = make()
            self._make = None
        assert self._made is not None, "bug: nothing was made"
        return self._made(*args)


def _would_save(args: Iterable[Any]) -> bool:
    return torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in args)
