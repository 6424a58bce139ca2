"""The partition function handed to AOTAutograd: splits, lowers and joins, and hands back two stubs.

torch's own min-cut partition decides what is saved; both graphs are lowered here, become one program, and
AOTAutograd gets graphs of the right signature whose compiled form is that program: forward returns its
outputs and one opaque state, backward takes the state and the tangents.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import sympy
import torch
import torch.fx as fx
from torch._functorch import partitioners
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor import sizevars
from torch._inductor.custom_graph_pass import CustomPartitionerFn
from torch._inductor.utils import count_tangents, num_fw_fixed_arguments

from lowtide.lower.inductor.lowering import lower_graph
from lowtide.lower.joint import (
    BACKWARD_KEY,
    FORWARD_KEY,
    GraphRecord,
    Handle,
    Joint,
    canonical_hints,
    make_stubs,
    mark_numbers,
    output_node,
    output_values,
    placeholder_positions,
    placeholder_values,
    saved_placeholders,
    shape_env_of,
)


class LowtidePartitioner(CustomPartitionerFn):
    """Partition, lower and join one training graph.

    Args:
        identity: Identifies version and options in torch's cache keys.
        num_model_inputs: Inputs of the graph that dynamo captured.
        numbers: Positions of those inputs that wrap a plain number in each call.
        compile_joint: Makes the two compiled callables of the lowered graphs.
        state_value: An example of the opaque state, for the stub's metadata.
    """

    def __init__(
        self,
        identity: str,
        *,
        num_model_inputs: int,
        numbers: Collection[int],
        compile_joint: Callable[[Joint], tuple[Any, Any]],
        state_value: Callable[[], Any],
    ) -> None:
        self._identity = identity
        self._num_model_inputs = num_model_inputs
        self._numbers = numbers
        self._compile_joint = compile_joint
        self._state_value = state_value

    def uuid(self) -> str:
        """The part of torch's cache key that stands for lowtide."""
        return self._identity

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the identity alone: torch pickles its whole configuration into cache keys."""
        return (str, (self._identity,))

    def __call__(
        self, gm: fx.GraphModule, joint_inputs: Sequence[object], **kwargs: Any
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Split `gm`, lower both halves and return stubs."""
        num_forward_outputs: int = kwargs["num_fwd_outputs"]
        shape_env = shape_env_of(gm)
        with canonical_hints(shape_env, (partitioners, sizevars)):
            forward, backward = min_cut_rematerialization_partition(gm, joint_inputs, **kwargs)
            forward_stub, backward_stub = make_stubs(forward, backward, num_forward_outputs, self._state_value())
            static = kwargs.get("static_lifetime_input_indices")
            joint = self._lower(forward, backward, num_forward_outputs, static, shape_env)
        forward_code, backward_code = self._compile_joint(joint)
        forward_stub.meta[FORWARD_KEY] = Handle(forward_code)
        backward_stub.meta[BACKWARD_KEY] = Handle(backward_code)
        return forward_stub, backward_stub

    def _lower(
        self,
        forward: fx.GraphModule,
        backward: fx.GraphModule,
        num_forward_outputs: int,
        static: Sequence[int] | None,
        shape_env: Any,
    ) -> Joint:
        outputs = output_values(forward)
        saved = saved_placeholders(forward, backward, num_forward_outputs)
        # How many of the outputs are mutated inputs is not known yet; they keep their strides with the others.
        output_node(forward).meta["user_visible_output_idxs"] = [
            i for i in range(num_forward_outputs) if isinstance(outputs[i], fx.Node)
        ]
        output_node(backward).meta["user_visible_output_idxs"] = []
        inputs, positions = placeholder_values(forward), placeholder_positions(forward)
        fixed = max(0, num_fw_fixed_arguments(self._num_model_inputs, len(inputs)))
        forward_record = lower_graph(forward, inputs, static_input_idxs=range(fixed) if static is None else static)
        forward_record.inputs = mark_numbers(forward_record.inputs, positions, self._numbers)
        backward_inputs = _restride(backward, saved, forward_record, num_forward_outputs, shape_env)
        backward_record = lower_graph(
            backward, backward_inputs, static_input_idxs=range(count_tangents(backward)), is_backward=True
        )
        return Joint(forward_record, backward_record, num_forward_outputs, saved)


def _restride(
    backward: fx.GraphModule, saved: Sequence[str], forward: GraphRecord, num_forward_outputs: int, shape_env: Any
) -> list[Any]:
    """Give backward's inputs the strides that forward's outputs really have.

    Inductor may lay an activation out otherwise than the traced graph says (convolutions do); a backward
    compiled for the traced strides then reads wrong elements.
    """
    strides = dict(zip(saved, forward.output_strides[num_forward_outputs:], strict=True))
    values: list[Any] = []
    for node in backward.graph.nodes:
        if node.op != "placeholder":
            continue
        value, wanted = node.meta["val"], strides.get(node.name)
        fake: Any = value
        if isinstance(value, torch.Tensor) and wanted is not None and not _same_stride(value, wanted):
            symbolic = [int(s) if s.is_Integer else shape_env.create_symintnode(s, hint=None) for s in wanted]
            with fake.fake_mode, shape_env.suppress_guards():
                value = value.as_strided(value.size(), symbolic)
        values.append(value)
    return values


def _same_stride(value: torch.Tensor, wanted: Sequence[sympy.Expr]) -> bool:
    actual = [s.node.expr if isinstance(s, torch.SymInt) else sympy.Integer(s) for s in value.stride()]
    return actual == list(wanted)
