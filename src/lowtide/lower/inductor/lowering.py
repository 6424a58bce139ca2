"""Lowers one aten graph with Inductor, as torch.compile would, and returns its record."""

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch._C._dynamo import guards
from torch._inductor.compile_fx import compile_fx_inner, get_input_idxs_to_check
from torch._inductor.cudagraph_utils import BoxedDeviceIndex
from torch._inductor.utils import BoxedBool

from lowtide.lower.inductor.device_lines import align_inputs
from lowtide.lower.inductor.recording import recording
from lowtide.lower.joint import GraphRecord

_graph_ids = itertools.count()


def lower_graph(
    graph_module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    static_input_idxs: Sequence[int] = (),
    is_backward: bool = False,
    is_inference: bool = False,
) -> GraphRecord:
    """Lower a partitioned aten graph to generated kernels and library calls.

    Args:
        graph_module: A forward, backward or inference graph. Its nodes are rewritten in place by Inductor's passes.
        example_inputs: Fake tensors and symbolic integers, one per placeholder.
        static_input_idxs: Inputs whose addresses do not change between calls.
        is_backward: The graph is a backward.
        is_inference: The graph never needs a gradient.

    Returns:
        The record, with the loaded kernels.

    Raises:
        UnsupportedGraphError: If the generated wrapper cannot be accounted for.

    Cost: what Inductor itself takes, plus time linear in the wrapper's lines.
    """
    with recording() as only_record:
        compile_fx_inner(
            graph_module,
            example_inputs,
            static_input_idxs=static_input_idxs,
            cudagraphs=BoxedBool(False),
            graph_id=next(_graph_ids),
            is_backward=is_backward,
            is_inference=is_inference,
            boxed_forward_device_index=BoxedDeviceIndex(None),
        )
        record = only_record()
    if not hasattr(guards, "copy_if_misaligned"):
        # Before torch 2.13 inputs are aligned around the generated module, of which only the kernels run here.
        align_inputs(record, get_input_idxs_to_check(example_inputs, static_input_idxs))
    return record
