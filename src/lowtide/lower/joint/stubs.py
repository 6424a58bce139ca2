"""Stub graphs: what AOTAutograd gets in the place of a partitioned graph that became one program.

A stub has the signature of the graph that it stands for, with all saved activations replaced by one opaque
state: forward returns its outputs, a link and the state, backward takes these two and the tangents. The link is
a tensor without elements that depends on every input that needs a gradient: autograd refuses a second derivative
only where it can see such a tensor among the saved ones. The compiled form of a stub travels in its metadata.
"""

import dataclasses
import operator
from typing import Any

import torch
import torch.fx as fx
from torch._guards import CompileContext, TracingContext
from torch.utils import _pytree as pytree

from lowtide.lower.joint.errors import UnsupportedGraphError

FORWARD_KEY = "lowtide_forward"
BACKWARD_KEY = "lowtide_backward"


def stub_call(*_: Any) -> Any:
    """Stands for a compiled program in the stub graphs; only compiled autograd, which replays graphs, calls it."""
    raise UnsupportedGraphError(
        "Compiled autograd replays the graphs of backward, and a lowtide program is no graph.",
        found="a backward under compiled autograd of a forward that was compiled without it",
        where="loss.backward()",
        fix="switch compiled autograd off, or on before the first forward: such graphs run on torch's own path.",
    )


class Handle:
    """Carries a compiled callable through copies of a stub graph's metadata."""

    def __init__(self, code: Any) -> None:
        self.code = code

    def __deepcopy__(self, memo: dict[int, Any]) -> "Handle":
        return self


def make_stubs(
    forward: fx.GraphModule, backward: fx.GraphModule, num_forward_outputs: int, state: Any
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Make the stubs of a partitioned graph.

    Args:
        forward: The forward graph.
        backward: The backward graph.
        num_forward_outputs: How many of forward's outputs are the model's; the others are saved activations.
        state: An example of the opaque state.

    Returns:
        The stubs of forward and backward.

    Cost: linear in inputs and outputs.
    """
    outputs = output_values(forward)
    saved = set(saved_placeholders(forward, backward, num_forward_outputs))
    graph = fx.Graph()
    copies = {n.name: _copy_placeholder(graph, n) for n in forward.graph.nodes if n.op == "placeholder"}
    call = graph.call_function(stub_call, tuple(copies.values()))
    results: list[Any] = []
    for index, out in enumerate(outputs[:num_forward_outputs]):
        if not isinstance(out, fx.Node):
            results.append(out)
        elif out.name in copies:
            results.append(copies[out.name])
        else:
            item = graph.call_function(operator.getitem, (call, index))
            item.meta = dict(out.meta)
            results.append(item)
    carried: list[fx.Node] = []
    back = fx.Graph()
    placeholders: list[fx.Node] = []
    for name, value in (("lowtide_link", _empty_tensor(forward)), ("lowtide_state", state)):
        item = graph.call_function(operator.getitem, (call, num_forward_outputs + len(carried)), name=name)
        item.meta = {"val": value}
        carried.append(item)
        placeholder = back.placeholder(name)
        placeholder.meta = {"val": value}
        placeholders.append(placeholder)
    graph.output((*results, *carried))

    rest = [_copy_placeholder(back, n) for n in backward.graph.nodes if n.op == "placeholder" and n.name not in saved]
    call = back.call_function(stub_call, (*placeholders, *rest))
    gradients: list[Any] = []
    for index, out in enumerate(pytree.arg_tree_leaves(*output_node(backward).args)):
        if not isinstance(out, fx.Node):
            gradients.append(out)
            continue
        item = back.call_function(operator.getitem, (call, index))
        item.meta = dict(out.meta)
        gradients.append(item)
    back.output(tuple(gradients))
    return fx.GraphModule(torch.nn.Module(), graph), fx.GraphModule(torch.nn.Module(), back)


def compiled_forward(stub: fx.GraphModule) -> Any:
    """The compiled callable of a forward stub, at the time when AOTAutograd asks for it.

    AOTAutograd replaces an output that is a view of an activation by one with a version counter of its own, so that a
    change in place of what the caller holds would not be seen by the state, which shares that storage. The outputs of
    a program are no views for autograd, so they are told to be handed out themselves.
    """
    context = TracingContext.try_get()
    metadata: Any = None if context is None else context.fw_metadata
    if metadata is not None and metadata.num_unsafe_view_outputs:
        kinds = type(metadata.output_info[0].output_type)
        metadata.output_info = [
            dataclasses.replace(info, output_type=kinds.non_alias)
            if info.output_type is kinds.unsafe_view_alias
            else info
            for info in metadata.output_info
        ]
        metadata.unsafe_view_out_indices = []
        metadata.num_unsafe_view_outputs = 0
    return stub.meta[FORWARD_KEY].code


def take_state(args: list[Any]) -> tuple[Any, list[Any]]:
    """Split what a backward stub is called with into the state and the tangents; the list is emptied."""
    _, state, *tangents = args
    args.clear()
    return state, tangents


def saved_placeholders(forward: fx.GraphModule, backward: fx.GraphModule, num_forward_outputs: int) -> tuple[str, ...]:
    """Names of backward's placeholders for what forward saves, in the order of forward's outputs.

    A saved value has the same name in both graphs, except states of random generators. Backward takes saved numbers
    first, then the tensors in forward's order.
    """
    placeholders = [n.name for n in backward.graph.nodes if n.op == "placeholder"]
    saved = output_values(forward)[num_forward_outputs:]
    is_number = [isinstance(out.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool)) for out in saved]
    tensors = iter(placeholders[sum(is_number) :])
    places = [out.name if number else next(tensors) for out, number in zip(saved, is_number, strict=True)]
    return tuple(out.name if out.name in placeholders else place for out, place in zip(saved, places, strict=True))


def output_values(gm: fx.GraphModule) -> list[Any]:
    """What a graph returns, flat."""
    return list(pytree.arg_tree_leaves(*output_node(gm).args))


def output_node(gm: fx.GraphModule) -> fx.Node:
    """The last node of a graph."""
    last = next(iter(reversed(gm.graph.nodes)))
    assert last.op == "output", "bug: a graph without output"
    return last


def shape_env_of(gm: fx.GraphModule) -> Any:
    """The shape environment of a graph's symbolic sizes; None where all sizes are integers."""
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            return value.node.shape_env
        if isinstance(value, torch._subclasses.FakeTensor):
            return value.fake_mode.shape_env
    return None


def _empty_tensor(gm: fx.GraphModule) -> Any:
    """A fake tensor without elements.

    It is a view of an input: AOTAutograd takes any other saved tensor for a buffer that backward may overwrite, and
    refuses `retain_graph` then.
    """
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder" and isinstance(value, torch._subclasses.FakeTensor):
            with value.fake_mode:
                return value.as_strided((0,), (1,), 0)
    raise AssertionError("bug: a training graph without tensors")


def _copy_placeholder(graph: fx.Graph, node: fx.Node) -> fx.Node:
    copy = graph.placeholder(str(node.target), type_expr=node.type)
    copy.meta = dict(node.meta)
    return copy


def compile_title() -> str:
    """A name for what is being compiled on this thread."""
    compile_id = CompileContext.current_compile_id()
    return f"graph_{compile_id}".replace("/", "_") if compile_id is not None else "graph"
