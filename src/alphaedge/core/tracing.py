"""Make a recorded call leaner: drop operations that do nothing, do constant ones once, equal ones once.

vmap and grad write many views that change no shape, index offsets that are the same at every call, and both of them
again in the backward pass. On small batches such operations cost as much as the arithmetic.
"""

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor, fx

aten = torch.ops.aten

_CONSTANTS: Final = {aten.ones_like.default, aten.zeros_like.default, aten.full_like.default}

_VIEWS: Final = {
    aten.view.default,
    aten._unsafe_view.default,
    aten.expand.default,
    aten.permute.default,
    aten.alias.default,
    aten.detach.default,
    aten.slice.Tensor,
}


def simplify(graph: fx.GraphModule) -> fx.GraphModule:
    """The same function in fewer operations. Shapes must be fixed, as ``make_fx`` in its default mode has them."""
    nodes = graph.graph
    for node in list(nodes.nodes):
        same = _does_nothing(node)
        if same is not None and not _mutated(node) and not _mutated(same):
            node.replace_all_uses_with(same)
            nodes.erase_node(node)
    _merge_equals(nodes)
    _fold_constants(graph)
    _merge_equals(nodes)
    nodes.eliminate_dead_code()
    graph.recompile()
    return graph


def _value(node: Any) -> Tensor | None:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return value if isinstance(value, Tensor) else None


def _does_nothing(node: fx.Node) -> fx.Node | None:
    """The argument that this operation returns unchanged, if that is all it does."""
    if node.op != "call_function" or not node.args or not isinstance(node.args[0], fx.Node):
        return None
    if node.target in (aten.mul.Scalar, aten.mul.Tensor, aten.pow.Tensor_Scalar) and node.args[1] == 1:
        return node.args[0]
    if node.target in _VIEWS:
        before, after = _value(node.args[0]), _value(node)
        if before is not None and after is not None and before.shape == after.shape:
            return node.args[0] if before.stride() == after.stride() else None
    return None


def _mutated(node: fx.Node) -> bool:
    return any(
        user.op == "call_function" and getattr(getattr(user.target, "_schema", None), "is_mutable", False)
        for user in node.users
    )


def _pure(node: fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    tags = getattr(node.target, "tags", ())
    return (
        node.op == "call_function"
        and schema is not None
        and not schema.is_mutable
        and torch.Tag.nondeterministic_seeded not in tags
        and not _mutated(node)
    )


def _fold_constants(graph: fx.GraphModule) -> None:
    """Compute operations without inputs (index offsets) once, now."""
    known: dict[fx.Node, Tensor] = {}
    for node in list(graph.graph.nodes):
        if node.op != "call_function" or not _pure(node) or node.target is aten.empty_like.default:
            continue
        inputs = node.all_input_nodes
        if node.target in _CONSTANTS and inputs[0] not in known:
            shape = _value(inputs[0])
            if shape is not None:
                known[node] = node.target(torch.empty(shape.shape, dtype=shape.dtype), *node.args[1:], **node.kwargs)
        elif all(n in known for n in inputs) and (inputs or node.target is aten.arange.start_step):
            args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: known[n])  # type: ignore[misc]
            function: Callable[..., Tensor] = node.target  # type: ignore[assignment]
            known[node] = function(*args, **kwargs)
    for number, (node, value) in enumerate(known.items()):
        if all(user in known for user in node.users):
            continue
        name = f"constant_{number}"
        graph.register_buffer(name, value, persistent=False)
        with graph.graph.inserting_before(node):
            node.replace_all_uses_with(graph.graph.get_attr(name))


def _merge_equals(nodes: fx.Graph) -> None:
    """Keep one of several calls with the same function and arguments."""
    seen: dict[Any, fx.Node] = {}
    for node in list(nodes.nodes):
        if not _pure(node):
            continue
        key = repr((node.target, node.args, node.kwargs))
        first = seen.setdefault(key, node)
        if first is not node:
            node.replace_all_uses_with(first)
            nodes.erase_node(node)
