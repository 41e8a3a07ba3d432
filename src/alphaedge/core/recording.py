"""Record a stacked call once, and replay it for any number of edges.

vmap and grad cost more Python time than a small model's arithmetic takes. A recording (``make_fx``) is the flat list
of tensor operations behind the call, with the number of edges k written into its sizes. So the call is recorded for
two and for three edges; every number that differs is a line in k, and the recording for any k follows from the two.
On the way, operations that do nothing are dropped, equal ones done once, and constant ones (the index offsets that
vmap writes) computed when the recording is made.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final, final

import torch
from torch import Tensor, fx
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx

Function = Callable[..., list[Tensor]]

aten = torch.ops.aten

_VIEWS: Final = {
    aten.view.default,
    aten._unsafe_view.default,
    aten.expand.default,
    aten.permute.default,
    aten.alias.default,
    aten.detach.default,
    aten.slice.Tensor,
}
_FILLS: Final = {aten.ones_like.default, aten.zeros_like.default, aten.full_like.default}


class NotALineError(Exception):
    """Two recordings differ in more than numbers that grow with k."""


@final
class Recording:
    """A call of stacked tensors [k, ...], recorded so that it can be replayed for any k."""

    def __init__(self, function: Function, example: Sequence[Tensor]) -> None:
        self._two, self._three = (_lean(function, example, k) for k in (2, 3))
        if len(self._two.graph.nodes) != len(self._three.graph.nodes):
            raise NotALineError("another number of operations")

    def replay(self, k: int) -> Function:
        """The function for k edges. Raises NotALineError where the recording does not carry over to other k."""
        graph, made = fx.Graph(), dict[fx.Node, fx.Node]()
        known: dict[fx.Node, Tensor] = {}
        for a, b in zip(self._two.graph.nodes, self._three.graph.nodes, strict=True):
            if (a.op, str(a.target)) != (b.op, str(b.target)):
                raise NotALineError(f"{a.target} in one, {b.target} in the other")
            if a.op == "placeholder":
                made[a] = graph.placeholder(a.name)
            elif a.op == "get_attr":
                raise NotALineError("a tensor made while recording")
            elif a.op == "output":
                graph.output(_line(a.args[0], b.args[0], k, made))
            else:
                args, kwargs = _line(a.args, b.args, k, made), _line(a.kwargs, b.kwargs, k, made)
                made[a] = graph.call_function(a.target, args, kwargs)
                _fold(a, b, k, made, known)
        module = fx.GraphModule({}, graph)
        for number, (node, value) in enumerate(known.items()):
            if all(user in known for user in node.users):
                continue
            module.register_buffer(f"constant_{number}", value, persistent=False)
            with graph.inserting_before(node):
                node.replace_all_uses_with(graph.get_attr(f"constant_{number}"))
        graph.eliminate_dead_code()
        module.recompile()
        return module.forward


def without_python(function: Function, example: Sequence[Tensor]) -> Function:
    """The same operations run by TorchScript's interpreter: a third less time for a small model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript takes no new features; what is used here is its interpreter
        trace: Callable[..., Function] = torch.jit.trace
        try:
            return trace(function, tuple(example), check_trace=False)
        except RuntimeError:  # TorchScript does not take every operation (the backward pass of a batch norm)
            return function


def _line(a: Any, b: Any, k: int, made: dict[fx.Node, fx.Node]) -> Any:
    """The argument for k edges, from those for two (a) and three (b)."""
    if isinstance(a, fx.Node):
        return made[a]
    if isinstance(a, list | tuple) and type(a) is type(b) and len(a) == len(b):
        return type(a)(_line(x, y, k, made) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return {key: _line(a[key], b[key], k, made) for key in a}
    if type(a) is int and type(b) is int:
        return a + (b - a) * (k - 2)
    if a == b:
        return a
    raise NotALineError(f"{a!r} for two edges, {b!r} for three")


def _fold(a: fx.Node, b: fx.Node, k: int, made: dict[fx.Node, fx.Node], known: dict[fx.Node, Tensor]) -> None:
    """Compute an operation now if nothing that goes into it changes between calls."""
    node = made[a]
    if not _pure(a):
        return
    function: Any = node.target
    shape = _value(a)
    if a.target in _FILLS and shape is not None:
        other = _value(b)
        assert other is not None
        size = [_line(x, y, k, made) for x, y in zip(shape.shape, other.shape, strict=True)]
        known[node] = function(torch.empty(size, dtype=shape.dtype), *node.args[1:], **node.kwargs)
        return
    inputs = node.all_input_nodes
    if all(n in known for n in inputs) and (inputs or node.target is aten.arange.start_step):
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: known[n])
        value = function(*args, **kwargs)
        if isinstance(value, Tensor):
            known[node] = value


def _lean(function: Function, example: Sequence[Tensor], k: int) -> fx.GraphModule:
    """Record for k copies of the example's first edge; drop what does nothing, do equal things once."""
    flat = [x[:1].expand(k, *x.shape[1:]).clone() for x in example]
    graph = make_fx(function)(*flat)
    if any(_schema_mutates(node) for node in graph.graph.nodes):
        # Again without writes: below, the same name must mean the same value, and a constant must stay one.
        graph = make_fx(functionalize(graph, remove="mutations"))(*flat)
    nodes = graph.graph
    for node in list(nodes.nodes):
        same = _does_nothing(node)
        if same is not None and not _mutated(node) and not _mutated(same):
            node.replace_all_uses_with(same)
            nodes.erase_node(node)
    seen: dict[Any, fx.Node] = {}
    for node in list(nodes.nodes):
        if _pure(node):
            first = seen.setdefault(repr((node.target, node.args, node.kwargs)), node)
            if first is not node:
                node.replace_all_uses_with(first)
                nodes.erase_node(node)
    nodes.eliminate_dead_code()
    return graph


def _value(node: Any) -> Tensor | None:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return value if isinstance(value, Tensor) else None


def _does_nothing(node: fx.Node) -> fx.Node | None:
    """The argument that this operation returns unchanged, if that is all it does."""
    if node.op != "call_function" or not node.args or not isinstance(node.args[0], fx.Node):
        return None
    if node.target in (aten.mul.Scalar, aten.mul.Tensor, aten.pow.Tensor_Scalar) and node.args[1] == 1:
        before, after = _value(node.args[0]), _value(node)
        return node.args[0] if before is not None and after is not None and before.dtype == after.dtype else None
    if node.target in _VIEWS:
        before, after = _value(node.args[0]), _value(node)
        if before is not None and after is not None and before.shape == after.shape:
            return node.args[0] if before.stride() == after.stride() else None
    return None


def _mutated(node: fx.Node) -> bool:
    return any(user.op == "call_function" and _schema_mutates(user) for user in node.users)


def _schema_mutates(node: fx.Node) -> bool:
    return bool(getattr(getattr(node.target, "_schema", None), "is_mutable", False))


def _pure(node: fx.Node) -> bool:
    """Whether the same arguments give the same result, and nobody writes into it."""
    return (
        node.op == "call_function"
        and getattr(node.target, "_schema", None) is not None
        and not _schema_mutates(node)
        and torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ())
        and not str(node.target).startswith("aten.empty")
        and not _mutated(node)
    )
