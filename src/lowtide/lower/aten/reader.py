"""Reads an aten graph into a `GraphRecord`: one statement per operator call.

Stages, for each node in graph order:
1. inputs and constants become tensors by name, sizes become symbols;
2. a call of an operator becomes a statement. What a call returns in several parts is taken apart in the statement,
   so that each part lives as long as it is used and no longer;
3. numbers become text where they are used (scalars.py), except those known only at run time, which the
   statement of their call defines.

Other higher-order operators than those that replay random numbers (control flow, functionalized custom operators) and
tensors that are not dense are not handled: `UnsupportedGraphError`.
"""

import dataclasses
import math
import operator
from collections.abc import Mapping
from typing import Any

import torch
import torch.fx as fx
from torch.fx.experimental.symbolic_shapes import (
    CallMethodKey,
    ConvertIntKey,
    DivideByKey,
    resolve_unbacked_bindings,
)
from torch.utils._pytree import SequenceKey

from lowtide.lower.aten.aliases import Path, find_aliases, schema_arguments, tensor_leaves, written_arguments
from lowtide.lower.aten.arguments import argument_code, call_code, call_text
from lowtide.lower.aten.replay import is_replayed
from lowtide.lower.aten.scalars import SYMBOLIC, ScalarPrinter, is_scalar, symbol_expr
from lowtide.lower.joint import (
    GraphRecord,
    InputRecord,
    LibraryCall,
    Operand,
    OutputRecord,
    StatementRecord,
    TensorRecord,
    UnsupportedGraphError,
    bound_of,
    model_line,
    output_values,
    shape_env_of,
    size_code,
)


def read_graph(
    gm: fx.GraphModule, known_scalars: Mapping[str, str] | None = None
) -> tuple[GraphRecord, Mapping[str, str]]:
    """Read a partitioned forward, a backward or an inference graph.

    Args:
        gm: The graph, with fake tensors and symbolic numbers under `val` in every node's metadata.
        known_scalars: Text of numbers that the other graph of a step has computed, by name.

    Returns:
        The record, and the text of every number of this graph by name.

    Raises:
        UnsupportedGraphError: If the graph holds something that cannot be accounted for.

    Cost: linear in nodes; one run of a fake kernel for each call that may share storage silently.
    """
    reader = _GraphReader(gm, known_scalars or {})
    return reader.read(), reader.scalars.texts


class _GraphReader:
    def __init__(self, gm: fx.GraphModule, known_scalars: Mapping[str, str]) -> None:
        self.gm = gm
        self.shape_env = shape_env_of(gm)
        self.scalars = ScalarPrinter(known_scalars, self._argument)
        self.inputs: list[InputRecord] = []
        self.constants: dict[str, TensorRecord] = {}
        self.module: dict[str, Any] = {"math": math}
        self.statements: list[StatementRecord] = []
        self.names: dict[str, dict[Path, str]] = {}
        self.tensors: dict[str, TensorRecord] = {}
        self.taken = {node.name for node in gm.graph.nodes}

    def read(self) -> GraphRecord:
        for node in self.gm.graph.nodes:
            if node.op == "placeholder":
                self.inputs.append(self._input(node))
            elif node.op == "get_attr":
                self._constant(node)
            elif node.op == "call_function":
                self._call(node)
            elif node.op != "output":
                raise self._unsupported(node, f"a node of kind {node.op}")
        return GraphRecord(
            inputs=self.inputs,
            statements=self.statements,
            allocations={},
            outputs=[self._output(value) for value in output_values(self.gm)],
            constants=self.constants,
            precomputed={},
            ranges=self._ranges(),
            sources=self._sources(),
            replacements={} if self.shape_env is None else dict(self.shape_env.replacements),
            guards=() if self.shape_env is None else tuple(guard.expr for guard in self.shape_env.guards),
            output_strides=[],
            module=self.module,
        )

    # -- inputs, constants, outputs --------------------------------------------------------------------------

    def _input(self, node: fx.Node) -> InputRecord:
        value = node.meta["val"]
        if isinstance(value, torch.Tensor):
            return InputRecord(node.name, tensor=_without_rest(self._define(node, (), node.name, value), value))
        if is_scalar(value):
            return InputRecord(node.name, symbol=symbol_expr(value))
        return InputRecord(node.name)

    def _constant(self, node: fx.Node) -> None:
        constant: Any = self.gm
        for part in str(node.target).split("."):
            constant = getattr(constant, part)
        if not isinstance(constant, torch.Tensor):
            is_graph = isinstance(constant, fx.GraphModule)
            kind = "a graph inside the graph (control flow)" if is_graph else f"a constant {type(constant).__name__}"
            raise self._unsupported(node, kind)
        node.meta.setdefault("val", constant)
        self.constants[node.name] = self._define(node, (), node.name, node.meta["val"])
        self.module[node.name] = constant

    def _output(self, value: Any) -> OutputRecord:
        if isinstance(value, fx.Node):
            if not is_scalar(value.meta["val"]):
                name = self._node(value)
                return OutputRecord(name, (name,), is_tensor=True)
            code, value = self.scalars.code(value), value.meta["val"]
        else:
            code = repr(value)
        if value is None or isinstance(value, (float, torch.SymFloat, torch.SymBool)):
            return OutputRecord(code, ())
        return OutputRecord(code, (), integer=symbol_expr(value))

    # -- calls -----------------------------------------------------------------------------------------------

    def _call(self, node: fx.Node) -> None:
        if node.target is operator.getitem:
            self._part(node)
            return
        value = node.meta.get("val")
        bindings = self._bindings(node)
        if is_scalar(value) and not bindings:
            return
        if not isinstance(node.target, torch._ops.OpOverload):
            self._replayed(node)
            return
        call = call_code(node.target, node.args, node.kwargs, self._node)
        written = written_arguments(node)
        code: tuple[str, ...] = (call,)
        defines: tuple[TensorRecord, ...] = ()
        views: dict[str, str] = {}
        if is_scalar(value):
            symbol, way = next(iter(bindings.items()))
            code = (f"{symbol} = {self._reach(node, call, way)}",)
        elif any(True for _ in tensor_leaves(value)) and (node.users or not written):
            pattern, defines = self._name_results(node, value, bindings)
            views = self._views(node)
            code = (f"{pattern} = {call}", *self._sizes(node, bindings))
        tensors = bool(defines) or bool(self._tensors_of(node))
        is_view = bool(defines) and all(tensor.name in views for tensor in defines) and not written
        self.statements.append(
            StatementRecord(
                op=str(node.target),
                code=code,
                reads=tuple(dict.fromkeys(self._tensors_of(node))),
                writes=tuple(self.names[name][()] for name in written),
                defines=defines,
                views=views,
                symbols=tuple(bindings),
                call=self._library_call(node) if tensors and not is_view else None,
                random=torch.Tag.nondeterministic_seeded in node.target.tags,
                side_effect=not defines and not written and not is_scalar(value),
                origin=model_line([node]),
            )
        )

    def _replayed(self, node: fx.Node) -> None:
        """A random operator that recomputation runs again: its generator's state is kept, or brought back."""
        name = str(node.target)
        if not is_replayed(node):
            raise self._unsupported(node, f"a call of {name}")
        function = f"torch_{name}"  # the node's own name may be the plain one
        self.module[function] = node.target
        call = call_text(function, node.args, node.kwargs, self._node)
        pattern, defines = self._name_results(node, node.meta["val"], {})
        self.statements.append(
            StatementRecord(
                op=name,
                code=(f"{pattern} = {call}",),
                reads=tuple(dict.fromkeys(self._tensors_of(node))),
                defines=defines,
                call=LibraryCall(f"rng.{name}", ()),
                random=True,
                origin=model_line([node]),
            )
        )

    def _part(self, node: fx.Node) -> None:
        """A part of what a call returned: it has its name already."""
        source, index = node.args
        assert isinstance(source, fx.Node), "bug: a part of nothing"
        parts = self.names.get(source.name, {})
        own = {path[1:]: name for path, name in parts.items() if path[:1] == (index,)}
        if own:
            self.names[node.name] = own
        elif not is_scalar(node.meta.get("val")):
            raise self._unsupported(node, f"part {index} of {source.name}, which is no tensor")

    def _views(self, node: fx.Node) -> dict[str, str]:
        """Results that live in the storage of an argument, or of an earlier result of the same call."""
        views = {self.names[node.name][path]: self.names[owner][()] for path, owner in find_aliases(node).items()}
        first: dict[int, str] = {}
        for path, value in tensor_leaves(node.meta["val"]):
            name = self.names[node.name][path]
            owner = first.setdefault(value.untyped_storage()._cdata, name)
            if owner != name and name not in views:
                views[name] = owner
        return views

    def _name_results(
        self, node: fx.Node, value: Any, bindings: Mapping[str, Any]
    ) -> tuple[str, tuple[TensorRecord, ...]]:
        """Name everything that a call returns. Returns the assignment's left side and the tensors."""
        if isinstance(value, torch.Tensor):
            return node.name, (self._define(node, (), node.name, value),)
        readers = _part_readers(node)
        numbers = {
            tuple(key.idx for key in keys): symbol
            for symbol, keys in bindings.items()
            if all(isinstance(key, SequenceKey) for key in keys)
        }
        defined: list[TensorRecord] = []

        def pattern(part: Any, path: Path) -> str:
            if isinstance(part, torch.Tensor):
                name = readers.get(path) or self._fresh_name(node, path)
                defined.append(self._define(node, path, name, part))
                return name
            if isinstance(part, (list, tuple)):
                return f"({' '.join(pattern(p, (*path, i)) + ',' for i, p in enumerate(part))})"
            return numbers.get(path, "_")

        return pattern(value, ()), tuple(defined)

    def _fresh_name(self, node: fx.Node, path: Path) -> str:
        name = "_".join([node.name, "part", *map(str, path)])
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    # -- numbers known only at run time ----------------------------------------------------------------------

    def _bindings(self, node: fx.Node) -> dict[str, Any]:
        """Symbols that become known when a call returns, with the way to them."""
        found = resolve_unbacked_bindings(self.shape_env, node.meta.get("unbacked_bindings")) or {}
        return {str(symbol): path for symbol, path in found.items()}

    def _sizes(self, node: fx.Node, bindings: Mapping[str, Any]) -> list[str]:
        """Lines that read lengths off the tensors that a call returned."""
        lines: list[str] = []
        for symbol, keys in bindings.items():
            place: Path = ()
            rest = list(keys)
            while rest and isinstance(rest[0], SequenceKey) and place not in self.names[node.name]:
                place = (*place, rest.pop(0).idx)
            if rest:
                lines.append(f"{symbol} = {self._reach(node, self.names[node.name][place], rest)}")
        return lines

    def _reach(self, node: fx.Node, text: str, keys: Any) -> str:
        for key in keys:
            if isinstance(key, CallMethodKey):
                text = f"{text}.{key.name}()"
            elif isinstance(key, SequenceKey):
                text = f"{text}[{key.idx}]"
            elif isinstance(key, DivideByKey):
                text = f"({text} // {size_code(symbol_expr(key.divisor))})"
            elif isinstance(key, ConvertIntKey):
                text = f"int({text})"
            else:
                raise self._unsupported(node, f"a size at {key}")
        return text

    def _ranges(self) -> dict[str, tuple[int | None, int | None]]:
        if self.shape_env is None:
            return {}
        return {str(s): (bound_of(r.lower), bound_of(r.upper)) for s, r in self.shape_env.var_to_range.items()}

    def _sources(self) -> dict[str, str]:
        if self.shape_env is None:
            return {}
        return {str(s): str(found[0].name) for s, found in self.shape_env.var_to_sources.items() if found}

    # -- tensors ---------------------------------------------------------------------------------------------

    def _define(self, node: fx.Node, path: Path, name: str, value: torch.Tensor) -> TensorRecord:
        if value.layout is not torch.strided or type(value) not in {torch._subclasses.FakeTensor, torch.Tensor}:
            raise self._unsupported(node, f"a {value.layout} tensor of class {type(value).__name__}")
        self.names.setdefault(node.name, {})[path] = name
        record = tensor_record(name, value)
        self.tensors[name] = record
        return record

    def _node(self, node: fx.Node) -> str:
        """Print a node that is used as an argument."""
        own = self.names.get(node.name)
        value = node.meta.get("val")
        if own is None and is_scalar(value):
            return self.scalars.code(node)
        if own is not None and () in own:
            return own[()]
        if own is not None and isinstance(value, (list, tuple)):
            return f"[{', '.join(own[(i,)] for i in range(len(value)))}]"
        raise self._unsupported(node, f"a {type(value).__name__} as an argument")

    def _argument(self, value: Any) -> str:
        return argument_code(value, self._node)

    def _tensors_of(self, node: fx.Node) -> list[str]:
        return [name for argument in node.all_input_nodes for name in self.names.get(argument.name, {}).values()]

    def _library_call(self, node: fx.Node) -> LibraryCall:
        operands = tuple((parameter.name, self._operand(value)) for parameter, value in schema_arguments(node))
        return LibraryCall(str(node.target), operands)

    def _operand(self, value: Any) -> Operand:
        if isinstance(value, fx.Node):
            held = value.meta.get("val")
            if isinstance(held, torch.Tensor):
                return Operand(self.tensors[self._node(value)])
            return Operand(None, symbol_expr(held) if isinstance(held, SYMBOLIC) else held)
        if isinstance(value, (list, tuple)):
            return Operand(None, [self._operand(part) for part in value])
        return Operand(None, value)

    def _unsupported(self, node: fx.Node, found: str) -> UnsupportedGraphError:
        return UnsupportedGraphError(
            "An aten graph holds something that lowtide cannot account for.",
            found=f"{found}, at {node.name}",
            where=model_line([node]) or "the captured graph",
            fix="keep this call outside the compiled region, or use backend='inductor'.",
        )


def _part_readers(node: fx.Node) -> dict[Path, str]:
    """Names of the nodes that pick parts of what a call returns, by the part's place."""
    readers: dict[Path, str] = {}
    pending: list[tuple[fx.Node, Path]] = [(node, ())]
    while pending:
        source, path = pending.pop()
        for user in source.users:
            if user.target is operator.getitem and user.args[0] is source and isinstance(user.args[1], int):
                place = (*path, user.args[1])
                readers.setdefault(place, user.name)
                pending.append((user, place))
    return readers


def _without_rest(record: TensorRecord, value: torch.Tensor) -> TensorRecord:
    """An input as far as it reaches: the caller's storage may be longer by any amount, and is not counted."""
    reach = record.offset + 1
    for extent, step in zip(record.shape, record.stride, strict=True):
        reach = reach + (extent - 1) * step
    return dataclasses.replace(record, size_bytes=reach * value.element_size())


def tensor_record(name: str, value: torch.Tensor) -> TensorRecord:
    """Describe a fake (or constant) tensor. The size in bytes is that of its whole storage."""
    return TensorRecord(
        name=name,
        dtype=str(value.dtype),
        shape=tuple(symbol_expr(extent) for extent in value.shape),
        stride=tuple(symbol_expr(step) for step in value.stride()),
        offset=symbol_expr(value.storage_offset()),
        size_bytes=symbol_expr(value.untyped_storage().nbytes()),
        device=str(value.device),
    )
