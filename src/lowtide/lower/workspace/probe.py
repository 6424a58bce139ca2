"""Measure the workspace of a call that no formula knows, by running it alone once on made-up arguments.

The only module of this package that imports torch, and not imported by it: a formula needs no torch.

What comes back is a measurement at one valuation and one number of threads, on this machine. It is no prediction and is
never to be shown as one; it serves to fill a named unknown, and to check a formula.
"""

import gc
from collections.abc import Iterator, Mapping

import torch

from lowtide.lower.workspace.call import Argument, Call
from lowtide.runtime.meter import measure_peak
from lowtide.symbolic import Expr, evaluate


def measure_workspace(call: Call, valuation: Mapping[str, int], *, threads: int) -> int:
    """Run the operator of `call` once on zeros and return the bytes it took beyond its results.

    Args:
        call: Names its operator as torch does (`aten.convolution_backward.default`) and its arguments by schema.
        valuation: A number for every dimension variable in shapes, strides and plain arguments.
        threads: Threads that torch may use; set for the run and set back after it.

    Returns:
        Bytes at the highest moment of the call, above what was live before and the fresh storage of the results.

    Raises:
        KeyError: If an argument uses a variable that `valuation` does not name.
        AttributeError: If torch has no such operator.

    Guarantee: exact for this call; operators whose workspace depends on the values of tensors may differ on other data.
    Cost: one run of the operator, and its operands and results in memory.
    """
    operator = _operator(call.operator)
    known = {parameter.name for parameter in operator._schema.arguments}
    given = {name: _value(argument, valuation) for name, argument in call.arguments.items() if name in known}
    before = torch.get_num_threads()
    results: list[object] = []
    try:
        torch.set_num_threads(threads)
        gc.collect()
        with torch.no_grad():
            measured = measure_peak(lambda: results.append(operator(**given)))
    finally:
        torch.set_num_threads(before)
    operands = {tensor.untyped_storage().data_ptr() for tensor in _tensors(tuple(given.values()))}
    fresh = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in _tensors(tuple(results))}
    return measured.peak_bytes - sum(size for pointer, size in fresh.items() if pointer not in operands)


def _operator(name: str) -> torch._ops.OpOverload:
    namespace, packet, *overload = name.removeprefix("torch.ops.").split(".")
    if namespace == "extern_kernels":
        namespace = "aten"
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload[0] if overload else "default")


def _value(argument: Argument, valuation: Mapping[str, int]) -> object:
    if argument.shape is not None and argument.stride is not None:
        shape = [evaluate(length, valuation) for length in argument.shape]
        stride = [evaluate(step, valuation) for step in argument.stride]
        return torch.empty_strided(shape, stride, dtype=getattr(torch, argument.dtype)).zero_()
    if isinstance(argument.value, Expr):
        return evaluate(argument.value, valuation)
    if isinstance(argument.value, tuple):
        return [_value(part, valuation) if isinstance(part, Argument) else part for part in argument.value]
    return argument.value


def _tensors(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors(part)
