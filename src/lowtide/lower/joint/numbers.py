"""Plain numbers of a model that dynamo passes as tensors, and which inputs of a graph they became."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import torch

from lowtide.lower.joint.records import InputRecord


def numbers_passed_as_tensors(gm: torch.fx.GraphModule) -> frozenset[int]:
    """Positions of the inputs of a captured graph that wrap a plain number in each call.

    Args:
        gm: The graph as dynamo captured it.
    """
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    return frozenset(
        index
        for index, node in enumerate(placeholders)
        if getattr(node.meta.get("grapharg"), "pass_arg_as_tensor", False)
    )


def placeholder_positions(graph_module: torch.fx.GraphModule) -> list[int | None]:
    """For each input of a graph of AOTAutograd, the captured graph's input that it is; None where unknown."""
    placeholders = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    return [getattr(node.meta.get("desc"), "idx", None) for node in placeholders]


def placeholder_values(graph_module: torch.fx.GraphModule) -> list[Any]:
    """What stands for the inputs of a graph: fake tensors and symbolic integers."""
    return [node.meta["val"] for node in graph_module.graph.nodes if node.op == "placeholder"]


def mark_numbers(
    inputs: Sequence[InputRecord], positions: Sequence[Any], numbers: Collection[int]
) -> list[InputRecord]:
    """Mark the inputs that wrap numbers; `positions` as `placeholder_positions` gives them."""
    return [
        replace(record, made_for_call=record.tensor is not None and position in numbers)
        for record, position in zip(inputs, positions, strict=True)
    ]
