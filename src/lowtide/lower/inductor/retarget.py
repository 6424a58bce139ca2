"""Moves a graph that was captured on CPU to another device, in its metadata only.

Every tensor of the graph is on the new device afterwards, with three exceptions: Python floats that dynamo passes
as 0-dimensional float64 tensors stay on the host, as they would; constants that the graph holds stay where they
are, and those with dimensions are copied by a node of their own. Moves that the model itself makes (`x.cpu()`)
are not told apart: such tensors are on the new device too.

CPU attention becomes the device's attention, as torch's own selection would have it: flash attention for half
precision without a mask, memory-efficient attention otherwise.
"""

import operator
from typing import Any

import torch
import torch.fx as fx
from torch.fx.node import map_aggregate
from torch.utils import _pytree as pytree

_aten = torch.ops.aten
_CPU_ATTENTION = _aten._scaled_dot_product_flash_attention_for_cpu.default
_CPU_ATTENTION_BACKWARD = _aten._scaled_dot_product_flash_attention_for_cpu_backward.default
_LIFTED = (_aten.lift_fresh.default, _aten.lift_fresh_copy.default)  # how a graph takes in a constant that it holds
_FLASH_DTYPES = (torch.float16, torch.bfloat16)


def retarget_graph(gm: fx.GraphModule, device: torch.device) -> None:
    """Move the graph to `device` in place.

    Args:
        gm: A graph with fake tensors as metadata: joint, forward or inference.
        device: With an index.

    Cost: linear in nodes.
    """
    mode = _fake_mode(gm)
    for node in list(gm.graph.nodes):
        if node.op == "get_attr":
            continue
        if node.target in _LIFTED:
            _copy_constant(gm, node, device, mode)
            continue
        node.args = map_aggregate(node.args, lambda a: device if isinstance(a, torch.device) else a)
        node.kwargs = map_aggregate(node.kwargs, lambda a: device if isinstance(a, torch.device) else a)
        if "val" in node.meta:
            node.meta["val"] = pytree.tree_map(lambda value: _moved(value, device, mode), node.meta["val"])
    _Attention(gm, mode).replace()
    gm.graph.lint()
    gm.recompile()


def _fake_mode(gm: fx.GraphModule) -> Any:
    for node in gm.graph.nodes:
        for value in pytree.tree_leaves(node.meta.get("val")):
            if isinstance(value, torch._subclasses.FakeTensor):
                return value.fake_mode
    raise AssertionError("bug: a graph without tensors cannot be moved")


def _moved(value: Any, device: torch.device, mode: Any) -> Any:
    if not isinstance(value, torch.Tensor) or (value.dim() == 0 and value.dtype == torch.float64):
        return value
    with mode:
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=device)


def _copy_constant(gm: fx.GraphModule, node: fx.Node, device: torch.device, mode: Any) -> None:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dim() == 0:
        return
    with gm.graph.inserting_after(node):
        copied = gm.graph.call_function(torch.ops.prims.device_put.default, (node, device))
    copied.meta["val"] = _moved(value, device, mode)
    node.replace_all_uses_with(copied, delete_user_cb=lambda user: user is not copied)


class _Attention:
    """Replaces CPU attention and its gradient; both directions of one call are changed together."""

    def __init__(self, gm: fx.GraphModule, mode: Any) -> None:
        self.graph = gm.graph
        self.mode = mode

    def replace(self) -> None:
        backward = [n for n in self.graph.nodes if n.target is _CPU_ATTENTION_BACKWARD]
        for node in [n for n in self.graph.nodes if n.target is _CPU_ATTENTION]:
            self._replace(node, [b for b in backward if _comes_from(b.args[5], node)])

    def _replace(self, node: fx.Node, backward: list[fx.Node]) -> None:
        arguments: list[Any] = [*node.args]
        arguments += (None, None, None, 0.0, False)[len(arguments) :]  # the defaults of what is not given
        query, key, value, dropout, causal = arguments
        mask: Any = node.kwargs.get("attn_mask")
        scale = node.kwargs.get("scale")
        flash = mask is None and _value(query).dtype in _FLASH_DTYPES
        with self.graph.inserting_before(node):
            if flash:
                call = self._call(
                    _aten._scaled_dot_product_flash_attention.default,
                    (query, key, value, dropout, causal, False),
                    {"scale": scale},
                )
            else:
                mask = None if mask is None else self._expanded(mask, query, key)
                call = self._call(
                    _aten._scaled_dot_product_efficient_attention.default,
                    (query, key, value, mask, bool(backward), dropout, causal),
                    {"scale": scale},
                )
            call.meta = {**node.meta, **call.meta}
            # Random state: outputs 6 and 7 of flash attention, 2 and 3 of memory-efficient attention.
            state = [self._item(call, index) for index in ((6, 7) if flash else (2, 3))] if backward else []
        self._take_over(node, call)
        for old in backward:
            q, k = old.args[1:3]
            with self.graph.inserting_before(old):
                if flash:
                    new = self._call(
                        _aten._scaled_dot_product_flash_attention_backward.default,
                        (*old.args[:6], None, None, self._size(q, 2), self._size(k, 2), dropout, causal, *state),
                        {"scale": scale},
                    )
                else:
                    new = self._call(
                        _aten._scaled_dot_product_efficient_attention_backward.default,
                        (*old.args[:4], mask, *old.args[4:6], *state, dropout, [True, True, True, False], causal),
                        {"scale": scale},
                    )
                new.meta = {**old.meta, **new.meta}
            self._take_over(old, new)

    def _call(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.Node:
        node = self.graph.call_function(target, args, kwargs)
        values = map_aggregate((args, kwargs), lambda a: a.meta["val"] if isinstance(a, fx.Node) else a)
        with self.mode:
            node.meta["val"] = target(*values[0], **values[1])
        return node

    def _item(self, call: fx.Node, index: int) -> fx.Node:
        item = self.graph.call_function(operator.getitem, (call, index))
        item.meta = {**call.meta, "val": call.meta["val"][index]}
        return item

    def _size(self, tensor: Any, axis: int) -> Any:
        size = _value(tensor).size(axis)
        return size if isinstance(size, int) else self._call(_aten.sym_size.int, (tensor, axis), {})

    def _expanded(self, mask: fx.Node, query: fx.Node, key: fx.Node) -> fx.Node:
        """The mask with a batch and a head of its own for every query, as the kernel takes it."""
        have = _value(mask)
        wanted = [(query, 0), (query, 1), (query, 2), (key, 2)]
        missing = 4 - have.dim()
        sizes: list[Any] = []
        for position, (tensor, axis) in enumerate(wanted):
            own = have.size(position - missing) if position >= missing else None
            same = own is not None and not (isinstance(own, int) and own == 1)
            sizes.append(-1 if same else self._size(tensor, axis))
        return mask if all(size == -1 for size in sizes) else self._call(_aten.expand.default, (mask, sizes), {})

    def _take_over(self, old: fx.Node, new: fx.Node) -> None:
        for user in list(old.users):
            assert user.target is operator.getitem, "bug: attention's outputs are used as a tuple"
            user.args = (new, user.args[1])
            user.meta["val"] = new.meta["val"][user.args[1]]
        self.graph.erase_node(old)


def _comes_from(output: Any, call: fx.Node) -> bool:
    return isinstance(output, fx.Node) and output.target is operator.getitem and output.args[0] is call


def _value(node: Any) -> torch.Tensor:
    value = node.meta["val"]
    assert isinstance(value, torch.Tensor), "bug: attention of something that is no tensor"
    return value
