"""Random operators that recomputation runs again with the same random numbers.

torch's partition wraps them: forward keeps the state of the generator, backward brings it back for the call. It leaves
the nodes that it makes without fake values, which are filled in here.
"""

from collections.abc import Mapping
from typing import Any

import torch.fx as fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.node import map_arg

REPLAYING = frozenset({"run_and_save_rng_state", "run_with_rng_state"})
"""Functions of torch that run a random operator with a state of the generator that is kept or given."""


def is_replayed(node: fx.Node) -> bool:
    """Tell whether a node runs a random operator in one of these ways."""
    return node.op == "call_function" and str(node.target) in REPLAYING


def fill_values(forward: fx.GraphModule, backward: fx.GraphModule, saved: Mapping[str, str]) -> None:
    """Give replayed calls, their parts and saved generator states the fake values that torch left out.

    Args:
        forward: The forward graph.
        backward: The backward graph.
        saved: Name of a placeholder of backward -> name of the forward node whose value it gets.
    """
    states: dict[str, Any] = {}
    for node in forward.graph.nodes:
        if is_replayed(node):
            state, result = _run(node, forward)
            with _fake_mode(forward) as mode:
                # The state is a real tensor of fixed length; torch describes it as one of unknown length.
                node.meta["val"] = (mode.from_tensor(state, static_shapes=True), result)
            for user in node.users:
                user.meta["val"] = node.meta["val"][user.args[1]]
                states[user.name] = user.meta["val"]
    for node in backward.graph.nodes:
        if node.op == "placeholder" and saved.get(node.name) in states:
            node.meta["val"] = states[saved[node.name]]
        elif is_replayed(node) and "val" not in node.meta:
            node.meta["val"] = _run(node, backward)


def _run(node: fx.Node, gm: fx.GraphModule) -> Any:
    args, kwargs = map_arg((node.args, node.kwargs), lambda argument: argument.meta["val"])
    target: Any = node.target
    with _fake_mode(gm):
        return target(*args, **kwargs)


def _fake_mode(gm: fx.GraphModule) -> Any:
    return next(n.meta["val"].fake_mode for n in gm.graph.nodes if isinstance(n.meta.get("val"), FakeTensor))
