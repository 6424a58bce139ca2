"""Copies of captured graphs: compiling a graph uses it up."""

import copy
import types
from collections.abc import Callable
from typing import Any

import torch.fx as fx


def copy_captured(gm: fx.GraphModule) -> fx.GraphModule:
    """Copy a graph that dynamo captured, with what dynamo noted in it; tensors and sub-graphs are shared.

    Cost: linear in the nodes.
    """
    copied = fx.GraphModule(gm, copy.deepcopy(gm.graph))
    copied.meta = dict(gm.meta)
    for name in ("_param_name_to_source", "compile_subgraph_reason"):
        if hasattr(gm, name):
            setattr(copied, name, getattr(gm, name))
    originals = gm.graph.find_nodes(op="placeholder")
    for original, node in zip(originals, copied.graph.find_nodes(op="placeholder"), strict=True):
        for name, value in vars(original).items():
            if name.startswith("_dynamo"):
                setattr(node, name, value)
    return copied


def plain_function(gm: fx.GraphModule) -> Callable[..., Any]:
    """A function that runs a captured graph and that dynamo can capture again; it runs a bare GraphModule as it is.

    What dynamo noted in the graph is dropped: example values hold whole shape environments.
    """
    for node in gm.graph.nodes:
        node.meta = {key: value for key, value in node.meta.items() if key == "stack_trace"}
    gm.meta = {}

    def run(*args: Any) -> Any:
        return gm(*args)

    # dynamo counts recompilations by code object: each graph gets one of its own.
    return types.FunctionType(run.__code__.replace(), run.__globals__, closure=run.__closure__)
