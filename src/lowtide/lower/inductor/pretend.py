"""Lets Inductor lower for a CUDA device on a machine without one.

Inductor asks torch and the driver about a dozen things: is there a device, how many processors has it, which one
is current. Inside `pretended_device` these questions have fixed answers, generated modules are written but not
run, so no kernel is compiled, and the results that Inductor remembers are forgotten at the end.

What is pretended is lowering only: nothing can be allocated or run on the device.
"""

import ast
import contextlib
import functools
import importlib.util
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
import torch._dynamo.device_interface as device_interface
import torch._inductor.config as inductor_config
import torch.utils._triton
from torch._inductor.codecache import PyCodeCache
from torch._inductor.codegen.common import init_backend_registration
from torch._inductor.fx_passes import post_grad
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime import hints
from torch._inductor.virtualized import V

from lowtide.errors import LowtideError
from lowtide.lower.inductor.cards import CARDS, Card
from lowtide.lower.inductor.tensor_methods import guardless_methods

DEVICE = torch.device("cuda", 0)

_Remembering = type(functools.cache(lambda: None))

# Modules whose functions remember answers about the device.
_REMEMBERING = ("torch._inductor.", "torch.utils._triton", "torch._dynamo.device_interface")


class TritonMissingError(LowtideError):
    """Lowering for CUDA needs Triton, which prints the kernels."""

    def __init__(self, where: str) -> None:
        super().__init__(
            "Cannot lower for a CUDA device without Triton.",
            found="no package named triton",
            where=where,
            fix="pip install triton; it needs no GPU for this.",
        )


class UnknownCardError(LowtideError):
    """No figures are known for a card."""

    def __init__(self, card: str, where: str) -> None:
        self.card = card
        super().__init__(
            "No figures are known for this card.",
            found=repr(card),
            where=f"{where}(card=...)",
            fix=f"choose one of {', '.join(CARDS)}, or pass a Card with the figures.",
        )


@contextlib.contextmanager
def pretended_device(card: Card | str = "H100") -> Iterator[Card]:
    """Answer Inductor's questions about CUDA device 0 with the figures of a card, inside the context.

    Args:
        card: A name in `CARDS`, or figures.

    Raises:
        TritonMissingError: If the package `triton` is not installed.
        UnknownCardError: If there is no card of that name.

    Guarantee: everything changed is put back, and what Inductor came to remember inside is forgotten.
    Cost: a fraction of a second, the first time a second or two for Inductor's patterns.
    """
    figures = check_pretence(card, where="pretend_cuda")
    # These register patterns once per process, for whatever device is there: they must not meet the pretended one.
    init_backend_registration()
    post_grad.lazy_init()
    before = _remembered()
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message="TensorFloat32 tensor cores")  # advice for a card that is there
        for target, name, answer in _answers(figures):
            # A name that another version of torch does not have is not asked for there either.
            if hasattr(target, name):
                stack.enter_context(mock.patch.object(target, name, answer))
        stack.enter_context(mock.patch.dict(device_interface.caching_worker_device_properties, clear=True))
        stack.enter_context(mock.patch.dict(device_interface.caching_worker_current_devices, clear=True))
        stack.enter_context(mock.patch.object(GraphLowering, "compile_to_module", _write_module))
        stack.enter_context(mock.patch.object(GraphLowering, "constant_name", _constant_on_device))
        stack.enter_context(guardless_methods())
        # Autotuning and benchmarks would have to run kernels.
        stack.enter_context(inductor_config.patch({"triton.autotune_at_compile_time": False, "max_autotune": False}))
        for function, _ in before.values():
            if _asks_triton(function):
                function.cache_clear()
        try:
            yield figures
        finally:
            _forget(before)


def check_pretence(card: Card | str, *, where: str = "lower_for_cuda") -> Card:
    """Return the figures of a card, if lowering for it is possible here.

    Args:
        card: A name in `CARDS`, or figures.
        where: The function that was called, for the errors.

    Raises:
        TritonMissingError: If the package `triton` is not installed.
        UnknownCardError: If there is no card of that name.
    """
    if isinstance(card, str) and card not in CARDS:
        raise UnknownCardError(card, where)
    if importlib.util.find_spec("triton") is None:
        raise TritonMissingError(where)
    return CARDS[card] if isinstance(card, str) else card


def _answers(card: Card) -> list[tuple[Any, str, Any]]:
    properties = hints.DeviceProperties(
        type="cuda",
        index=0,
        multi_processor_count=card.multi_processor_count,
        cc=card.major * 10 + card.minor,
        major=card.major,
        regs_per_multiprocessor=card.regs_per_multiprocessor,
        max_threads_per_multi_processor=card.max_threads_per_multi_processor,
        **_known_fields(max_threads_per_block=card.max_threads_per_block, warp_size=card.warp_size),
    )
    interface = device_interface.CudaInterface
    return [
        # Part of cache keys only; the real one loads the driver.
        (torch.utils._triton, "triton_hash_with_backend", _returns("pretended")),
        (hints.DeviceProperties, "create", classmethod(_returns(properties))),
        (torch.cuda, "get_device_properties", _returns(card)),
        (torch.cuda, "get_device_capability", _returns((card.major, card.minor))),
        (torch.cuda, "is_available", _returns(True)),
        (torch.cuda, "device_count", _returns(1)),
        (torch.cuda, "current_device", _returns(0)),
        (torch.cuda, "_lazy_init", _returns(None)),
        (torch.cuda, "_exchange_device", _returns(0)),
        (torch.cuda, "_maybe_exchange_device", _returns(0)),
        (torch.cuda, "set_device", _returns(None)),
        (torch.cuda, "synchronize", _returns(None)),
        (torch.cuda, "is_bf16_supported", _returns(True)),
        (torch.cuda, "get_rng_state", _random_state),
        (torch.cuda, "set_rng_state", _returns(None)),
        (interface, "get_device_properties", staticmethod(_returns(card))),
        (interface, "get_compute_capability", staticmethod(_returns(card.major * 10 + card.minor))),
        (interface, "current_device", staticmethod(_returns(0))),
        (interface, "device_count", staticmethod(_returns(1))),
        (interface, "set_device", staticmethod(_returns(None))),
        (interface, "synchronize", staticmethod(_returns(None))),
        (interface, "exchange_device", staticmethod(_returns(0))),
        (interface, "maybe_exchange_device", staticmethod(_returns(0))),
        (interface, "raise_if_triton_unavailable", staticmethod(_returns(None))),
        (interface.Worker, "get_device_properties", staticmethod(_returns(card))),
        (interface.Worker, "current_device", staticmethod(_returns(0))),
    ]


def _known_fields(**values: Any) -> dict[str, Any]:
    """The fields that this version's `DeviceProperties` has."""
    return {name: value for name, value in values.items() if name in hints.DeviceProperties._fields}


def _returns(answer: Any) -> Callable[..., Any]:
    def give(*_: Any, **__: Any) -> Any:
        return answer

    return give


def _random_state(*_: Any, **__: Any) -> torch.Tensor:
    return torch.zeros(16, dtype=torch.uint8)


def _write_module(graph: GraphLowering) -> types.ModuleType:
    """Stand in for `GraphLowering.compile_to_module`: generate and write the module, but do not run it.

    The module's names are there, each with its text as value: equal text is the same kernel.
    """
    generated = graph.codegen()[0]
    source = str(getattr(generated, "value", generated))
    _, path = PyCodeCache.write(source)
    module = types.ModuleType("pretended")
    module.__file__ = path
    module.__dict__.update(_top_level_names(source))
    for name, value in graph.constants.items():
        module.__dict__[name] = value
    module.__dict__["call"] = _never_called
    return module


def _constant_on_device(graph: GraphLowering, name: str, device_override: torch.device | None) -> str:
    """Stand in for `GraphLowering.constant_name`, which copies a constant to the device that needs it."""
    constant = graph.constants[name]
    if device_override is None or constant.device == device_override:
        return name
    copied = f"{name}_{device_override.type}{device_override.index or 0}"
    with V.fake_mode:
        fake = torch.empty_strided(constant.size(), constant.stride(), dtype=constant.dtype, device=device_override)
    graph.constants[copied] = fake
    graph.constant_reprs[copied] = f"{fake.device!r} {fake.dtype!r}, copied from {name}"
    graph.allocated_constant_name[copied] = copied
    return copied


def _top_level_names(source: str) -> dict[str, str]:
    names: dict[str, str] = {}
    for node in ast.parse(source).body:
        text = sys.intern(ast.unparse(node))
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update({alias.asname or alias.name.partition(".")[0]: text for alias in node.names})
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names[node.name] = text
        elif isinstance(node, ast.Assign):
            names.update({target.id: text for target in node.targets if isinstance(target, ast.Name)})
    return names


def _never_called(*_: Any) -> Any:
    raise AssertionError("bug: a program for a pretended device was run")


# -- what functions remember ---------------------------------------------------------------------------------


def _remembered() -> dict[int, tuple[Any, int]]:
    """Every remembering function of Inductor, with the number of answers it has worked out so far."""
    found: dict[int, tuple[Any, int]] = {}
    for module_name, module in list(sys.modules.items()):
        if not module_name.startswith(_REMEMBERING) or module is None:
            continue
        for value in list(vars(module).values()):
            for function in (value, *_methods(value)):
                if isinstance(function, _Remembering):
                    found[id(function)] = (function, function.cache_info().misses)
    return found


def _methods(value: Any) -> list[Any]:
    return [getattr(m, "__func__", m) for m in vars(value).values()] if isinstance(value, type) else []


def _asks_triton(function: Any) -> bool:
    return getattr(function, "__module__", "") == "torch.utils._triton"


def _forget(before: dict[int, tuple[Any, int]]) -> None:
    for key, (function, misses) in _remembered().items():
        known = before.get(key)
        changed = known is None or misses != known[1] or _asks_triton(function)
        if changed and not _registers_patterns(function):
            function.cache_clear()


def _registers_patterns(function: Any) -> bool:
    """Registering twice is an error, so what registers is not forgotten."""
    name = getattr(function, "__name__", "")
    return name == "lazy_init" or name.endswith("_init") or "register" in name
