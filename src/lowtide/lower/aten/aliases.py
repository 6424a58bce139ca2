"""Which results of a call live in the storage of its arguments.

Two witnesses are asked, in this order: the storages of the recorded fake tensors; then, because a graph pass may
have replaced an argument by an equal one, the operator's own fake kernel, run once more on the arguments as they
are now. The schema alone tells too little: `_unsafe_view` shares storage and does not say so, `reshape` says
that it does and does so only sometimes.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.fx as fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

Path = tuple[int, ...]
"""Where a tensor stands in what a call returns; empty when the call returns the tensor itself."""


def tensor_leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, torch.Tensor]]:
    """The tensors in what a call returns, with their places."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, (list, tuple)):
        for index, part in enumerate(value):
            yield from tensor_leaves(part, (*path, index))


def tensor_arguments(node: fx.Node) -> dict[str, torch.Tensor]:
    """The tensors that a call is given, by the name of the node that makes them."""
    found: dict[str, torch.Tensor] = {}
    for argument in node.all_input_nodes:
        value = argument.meta.get("val")
        if isinstance(value, torch.Tensor):
            found[argument.name] = value
    return found


def find_aliases(node: fx.Node) -> dict[Path, str]:
    """Find the results of an operator call that live in an argument's storage.

    Args:
        node: A call of an operator whose arguments and results have fake tensors under `val`.

    Returns:
        Place of a result -> name of the argument.

    Cost: linear in the arguments; for some operators one run of the fake kernel.
    """
    arguments = tensor_arguments(node)
    owners = {_storage(value): name for name, value in reversed(arguments.items())}
    found: dict[Path, str] = {}
    unresolved: list[Path] = []
    for path, value in tensor_leaves(node.meta["val"]):
        owner = owners.get(_storage(value))
        if owner is None:
            unresolved.append(path)
        else:
            found[path] = owner
    if unresolved and arguments and _may_share(node):
        again = dict(tensor_leaves(_run_again(node)))
        for path in unresolved:
            owner = owners.get(_storage(again[path]))
            if owner is not None:
                found[path] = owner
    return found


def written_arguments(node: fx.Node) -> tuple[str, ...]:
    """The names of the arguments that an operator changes in place, by its schema."""
    names: list[str] = []
    for parameter, argument in schema_arguments(node):
        if parameter.alias_info is not None and parameter.alias_info.is_write:
            names += [leaf.name for leaf in pytree.tree_leaves(argument) if isinstance(leaf, fx.Node)]
    return tuple(dict.fromkeys(names))


def schema_arguments(node: fx.Node) -> Iterator[tuple[Any, Any]]:
    """Parameters of an operator's schema with the arguments given for them."""
    target: Any = node.target
    parameters = {parameter.name: parameter for parameter in target._schema.arguments}
    yield from zip(parameters.values(), node.args, strict=False)
    for name, argument in node.kwargs.items():
        if name in parameters:
            yield parameters[name], argument


def _may_share(node: fx.Node) -> bool:
    target: Any = node.target
    if node.meta.get("unbacked_bindings") or target._schema.is_mutable:
        return False
    return torch.Tag.pointwise not in target.tags and torch.Tag.nondeterministic_seeded not in target.tags


def _run_again(node: fx.Node) -> Any:
    """Run the fake kernel on the recorded arguments."""
    args, kwargs = map_arg((node.args, node.kwargs), lambda argument: argument.meta["val"])
    mode: Any = next(v.fake_mode for v in tensor_arguments(node).values() if isinstance(v, FakeTensor))
    shape_env = mode.shape_env
    target: Any = node.target
    with contextlib.ExitStack() as stack:
        stack.enter_context(mode)
        if shape_env is not None:
            stack.enter_context(shape_env.suppress_guards())
            stack.enter_context(shape_env.ignore_fresh_unbacked_symbols())
        return target(*args, **kwargs)


def _storage(value: torch.Tensor) -> int:
    return value.untyped_storage()._cdata
