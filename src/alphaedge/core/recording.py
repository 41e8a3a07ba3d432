"""Record a stacked call once, and replay it for any number of edges.

vmap and grad cost more Python time than a small model's arithmetic takes. A recording is the flat list of tensor
operations behind the call, with the number of edges k written into its sizes. So the call is recorded for two and for
three edges; every number that differs is a line in k, and the two give one program for all k: TorchScript source, which
its interpreter runs without Python. On the way, operations that do nothing are dropped and equal ones done once.
"""

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor, fx
from torch.func import functionalize
from torch.fx.node import map_aggregate
from torch.utils._python_dispatch import TorchDispatchMode

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
_NEUTRAL: Final = {  # operations with a number, and the number with which they do nothing
    aten.mul.Scalar: 1,
    aten.mul.Tensor: 1,
    aten.pow.Tensor_Scalar: 1,
    aten.add.Tensor: 0,
}
_CONSTANTS: Final = (torch.dtype, torch.layout, torch.memory_format)


class NotLinearError(Exception):
    """Two recordings differ in more than numbers that grow with k."""


def record(function: Function, example: Sequence[Tensor]) -> str:
    """A call of stacked tensors [k, ...] as TorchScript source that holds for every k.

    Raises NotLinearError where the call for k edges can't be derived from the calls for two and three edges.
    """
    two, three = (list(_lean(function, example, k).nodes) for k in (2, 3))
    if len(two) != len(three):
        raise NotLinearError("another number of operations")
    names: dict[fx.Node, str] = {}
    inputs, body = list[str](), list[str]()
    for a, b in zip(two, three, strict=True):
        if (a.op, str(a.target)) != (b.op, str(b.target)):
            raise NotLinearError(f"{a.target} in one, {b.target} in the other")
        name = names[a] = f"v{len(names)}"
        if a.op == "placeholder":
            inputs.append(name)
        elif a.op == "output":
            body.append(f"return {_text(a.args[0], b.args[0], names)}")
        elif a.op == "call_function":
            body.append(f"{name} = {_call(a, b, names)}")
        else:
            raise NotLinearError("a tensor made while recording")
    header = f"def call({', '.join(f'{name}: Tensor' for name in inputs)}) -> List[Tensor]:"
    return "\n    ".join([header, f"k = {inputs[0]}.size(0)", *body]) + "\n"


def script(source: str) -> Function:
    """A recorded call, run by TorchScript's interpreter: a third less time for a small model than from Python."""
    call: Function = torch.jit.CompilationUnit(source).call
    return call


def _call(a: fx.Node, b: fx.Node, names: dict[fx.Node, str]) -> str:
    if a.target is operator.getitem:
        return f"{_text(a.args[0], b.args[0], names)}[{a.args[1]}]"
    schema: Any = getattr(a.target, "_schema", None)
    if schema is None or a.kwargs.keys() != b.kwargs.keys() or len(a.args) != len(b.args):
        raise NotLinearError(f"{a.target} is no operation of tensors alone")
    args = [_text(x, y, names) for x, y in zip(a.args, b.args, strict=True)]
    if a.target is aten.embedding_dense_backward.default and a.args[3:] == (-1, False):
        # The same sums in a third of the time; in the same order, too, on one thread.
        zeros = f"torch.ops.aten.new_zeros({args[0]}, [{args[2]}, {args[0]}.size(-1)])"
        return f"torch.ops.aten.index_put_({zeros}, [{args[1]}], {args[0]}, True)"
    for place, argument in enumerate(schema.arguments[: len(args)]):
        if str(argument.type) == "List[Optional[Tensor]]":
            args[place] = f"torch.jit.annotate(List[Optional[Tensor]], {args[place]})"
    before, after = _value(a.args[0]) if a.args else None, _value(a)
    if a.target is aten.mul.Tensor and before is not None and after is not None and before.dtype != after.dtype:
        args[0] = f"torch.ops.aten.to({args[0]}, {after.dtype})"  # TorchScript takes x * 1 for x, whatever its type
    args += [f"{key}={_text(a.kwargs[key], b.kwargs[key], names)}" for key in a.kwargs]
    return f"torch.ops.{schema.name.replace('::', '.')}({', '.join(args)})"


def _text(a: Any, b: Any, names: dict[fx.Node, str]) -> str:
    """An argument for k edges, from those for two (a) and three (b)."""
    if isinstance(a, fx.Node):
        return names[a]
    if isinstance(a, list | tuple) and type(a) is type(b) and len(a) == len(b):
        return f"[{', '.join(_text(x, y, names) for x, y in zip(a, b, strict=True))}]"
    if type(a) is int and type(b) is int and a != b:
        each, rest = b - a, a - 2 * (b - a)
        return (f"{each} * k" if each != 1 else "k") + (f" + {rest}" if rest else "")
    if a != b:
        raise NotLinearError(f"{a!r} for two edges, {b!r} for three")
    if isinstance(a, _CONSTANTS):
        return str(a)
    if isinstance(a, torch.device):
        return f"torch.device('{a}')"
    if isinstance(a, float) and not math.isfinite(a):
        return f"float('{a}')"
    if a is None or isinstance(a, bool | int | float | str):
        return repr(a)
    raise NotLinearError(f"{a!r}, which TorchScript has no word for")


class _Recorder(TorchDispatchMode):
    """Notes every tensor operation that runs below it, after vmap and autograd are done with it.

    What ``make_fx`` does, in a tenth of its time: no shapes are traced, and torch's compiler is not loaded.
    """

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph = fx.Graph()
        self._nodes: dict[int, fx.Node] = {}
        self._values = list[Tensor]()  # kept, so that no other tensor gets the id of one of them
        for number, value in enumerate(inputs):
            self.note(value, self.graph.placeholder(f"x{number}"))

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # to skip the compiler is to load it

    def note(self, value: Any, node: fx.Node) -> None:
        """Note which operation has made a value."""
        if isinstance(value, Tensor):
            node.meta["val"], self._nodes[id(value)] = value, node
            self._values.append(value)
        elif isinstance(value, list | tuple):
            for place, part in enumerate(value):
                self.note(part, self.graph.call_function(operator.getitem, (node, place)))
        elif value is not None:
            raise NotLinearError(f"{node.target} looks at values")

    def name(self, value: Any) -> Any:
        """The operation that has made a tensor; what is no tensor stands for itself."""
        if isinstance(value, Tensor) and id(value) not in self._nodes:
            raise NotLinearError("a tensor made while recording")
        return self._nodes[id(value)] if isinstance(value, Tensor) else value

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        named: Any = map_aggregate((tuple(args), kwargs or {}), self.name)
        self.note(found, self.graph.call_function(func, *named))
        return found


def _operations(function: Function, flat: Sequence[Tensor]) -> fx.Graph:
    """The operations behind a call, in order."""
    recorder = _Recorder(flat)
    with recorder:
        found = function(*flat)
    recorder.graph.output([recorder.name(value) for value in found])
    return recorder.graph


def _lean(function: Function, example: Sequence[Tensor], k: int) -> fx.Graph:
    """Record for k copies of the example's first edge; drop what does nothing, do equal things once."""
    flat = [x[:1].expand(k, *x.shape[1:]).clone() for x in example]
    nodes = _operations(function, flat)
    if any(_schema_mutates(node) for node in nodes.nodes):
        # Again without writes: below, the same name must mean the same value.
        nodes = _operations(functionalize(fx.GraphModule({}, nodes), remove="mutations"), flat)
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
    return nodes


def _value(node: Any) -> Tensor | None:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return value if isinstance(value, Tensor) else None


def _does_nothing(node: fx.Node) -> fx.Node | None:
    """The value that this operation returns unchanged, if that is all it does."""
    if node.op != "call_function" or not node.args or not isinstance(node.args[0], fx.Node):
        return None
    same: Any = node.args[0]
    useless: Any
    if node.target is aten.transpose.int:  # there and back
        return same.args[0] if same.target is aten.transpose.int and set(same.args[1:]) == set(node.args[1:]) else None
    if node.target is aten.clone.default:
        useless = not _returned(node)  # nobody may get back what he gave
    elif node.target is aten.copy.default:
        same = node.args[1]
        made = isinstance(same, fx.Node) and same.op == "call_function" and not _is_view(same)
        useless = made and not _returned(same)  # or two results would be one
    elif node.target in _NEUTRAL:
        useless = node.args[1] == _NEUTRAL[node.target] and not node.kwargs and not _returned(node)
    else:
        useless = node.target in _VIEWS
    before, after = _value(same), _value(node)
    if not useless or before is None or after is None or (before.dtype, before.shape) != (after.dtype, after.shape):
        return None
    return same if node.target in _NEUTRAL or before.stride() == after.stride() else None


def _returned(node: fx.Node) -> bool:
    """Whether a call returns this value or a view of it."""
    return any(user.op == "output" or (_is_view(user) and _returned(user)) for user in node.users)


def _is_view(node: fx.Node) -> bool:
    schema: Any = getattr(node.target, "_schema", None)
    return node.target is operator.getitem or (schema is not None and any(r.alias_info for r in schema.returns))


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
