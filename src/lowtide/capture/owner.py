"""Which torch.compile call a graph belongs to.

`torch.compile` wraps its backend in an object of its own, one per call; the same object is known while a
graph is being compiled and can be found again from the compiled model. It is what `lowtide.explain` looks
programs up by. The attributes used here are dynamo's and may move between versions: every look-up gives None
when they are not where they were.
"""

from typing import Any

import torch
from torch._dynamo import compiled_autograd
from torch._dynamo.eval_frame import innermost_backend
from torch._dynamo.symbolic_convert import InstructionTranslator


def current_backend() -> object | None:
    """The backend object of the compilation now running on this thread; None outside of one."""
    try:
        translator = InstructionTranslator.current_tx()
    except AttributeError:
        return None
    output = getattr(translator, "output", None)
    compiler = getattr(output, "compiler_fn", None)
    return None if compiler is None else innermost_backend(compiler)


def find_backend(compiled: Any) -> object | None:
    """The backend object of what `torch.compile` returned, or of a module after `module.compile()`.

    Args:
        compiled: A compiled module or function.

    Returns:
        The object, or None if `compiled` was not made by torch.compile.
    """
    callback = _callback_of(compiled)
    return None if callback is None else innermost_backend(callback)


def _callback_of(compiled: Any) -> Any:
    context = getattr(compiled, "dynamo_ctx", None)
    if context is not None:
        return context.callback
    if isinstance(compiled, torch.nn.Module):
        inner = getattr(compiled, "_compiled_call_impl", None)
        return None if inner is None else _callback_of(inner)
    for cell in getattr(compiled, "__closure__", None) or ():
        content = cell.cell_contents
        if hasattr(content, "_torchdynamo_orig_backend"):
            return content
    return None


def compiled_autograd_is_on() -> bool:
    """Whether backward will be captured and compiled too, by torch's compiled autograd."""
    return bool(torch._dynamo.config.compiled_autograd or compiled_autograd.compiled_autograd_enabled)
