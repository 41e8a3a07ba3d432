"""Gradients of single examples, of k edges at once, without writing most of them out.

The gradient of an example by the weight of a linear layer is the outer product of two short vectors: the layer's input
a and the slope d of the loss by the layer's output. Both come out of one backward pass for all examples, and the length
of the product is |d| |a| (Goodfellow, "Efficient per-example gradient computations", 2015; Li et al., "Large language
models can be strong differentially private learners", ICLR 2022). All other parameters are written out, example by
example. The slope by a layer's output is found by adding a zero to it, and taking the gradient by that zero.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, final, runtime_checkable

import torch
from torch import Tensor, nn
from torch.func import grad_and_value, vmap

from alphaedge.core.batch import Batch
from alphaedge.core.model import Model
from alphaedge.core.replays import Recordings, Replays
from alphaedge.core.state import ModelState
from alphaedge.errors import ModelError


@runtime_checkable
class RunningStatistics(Protocol):
    """A layer that normalises numbers by running means and variances, as ``alphaedge.models.running_norm`` does."""

    mean: Tensor
    variance: Tensor
    seen: Tensor
    limit: float


@final
class Linear(NamedTuple):
    """The gradients of examples by a linear layer, as two factors: slopes [k, B, out] and inputs [k, B, in].

    weight, bias: where the layer's parameters are in the dense part; the bias has the input 1.
    """

    slopes: Tensor
    inputs: Tensor
    weight: slice
    bias: slice | None


@final
class PerExample(NamedTuple):
    """Gradients of each example's own loss by the dense part of its edge's model.

    rest: by all dense parameters that are of no linear layer, [k, B, S], which are at ``places`` [S] of the dense part.
    numbers: what each layer with running statistics was given, [k, B, F]. outputs: [k, B].
    """

    linears: list[Linear]
    rest: Tensor
    places: Tensor
    numbers: tuple[Tensor, ...]
    outputs: Tensor

    def finite(self) -> "PerExample":
        """The same with 0 for numbers that are not finite: no example may break a sum, or show itself by that."""

        def clean(values: Tensor) -> Tensor:
            return values.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)

        linears = [one._replace(slopes=clean(one.slopes), inputs=clean(one.inputs)) for one in self.linears]
        return self._replace(linears=linears, rest=clean(self.rest))


@final
class PerExampleGradients:
    """Computes gradients of single examples, for a model whose examples do not depend on each other."""

    def __init__(self, model: Model, recordings: Recordings | None = None) -> None:
        self.model = model
        self._replays = Replays(recordings=recordings)
        self._modules = dict(model.module.named_modules())
        self.norms = [name for name, part in self._modules.items() if isinstance(part, RunningStatistics)]
        self._refuse_other_statistics()
        self._linears: list[str] | None = None  # found out on the first batch

    def _refuse_other_statistics(self) -> None:
        """Refuse a module whose buffers nobody can keep private."""
        allowed = {f"{name}.{part}".lstrip(".") for name in self.norms for part in ("mean", "variance", "seen")}
        ridge = {self.model.ridge.gram} if self.model.ridge else set()  # never moves in a private step
        others = sorted(set(self.model.statistics()) - allowed - ridge)
        if others:
            raise ModelError(
                f"privacy: {type(self.model.module).__name__} keeps statistics of its inputs in {', '.join(others)}, "
                "which can't be kept private; use a layer like alphaedge.models.running_norm.RunningNorm instead"
            )

    @property
    def statistics(self) -> int:
        """How many numbers have running statistics."""
        found = dict(self.model.module.named_buffers())
        return sum(found[f"{name}.mean".lstrip(".")].numel() for name in self.norms)

    def __call__(self, state: ModelState, batch: Batch) -> PerExample:
        """The gradients of the examples of k batches, by the models of k edges, in evaluation mode."""
        rows = [t.gather(t.flat(r)) for t, r in zip(state.tables, batch.rows, strict=True)]
        told = self.model.told(rows, batch.inputs)
        own, inputs = self._own_rows(rows, told)
        if self.model.module.training:
            self.model.module.train(False)
        if self._linears is None:
            self._linears = self._find_linears(state, [r[:1, :1] for r in own], [x[:1, :1] for x in inputs])
        flat = [state.dense, *own, *state.buffers.values(), *inputs, batch.labels]
        linears, names = self._linears, list(state.buffers)

        def stacked(*flat: Tensor) -> list[Tensor]:
            return self._stacked(flat, linears, names)

        return self._unflatten(self._replays.run("per example", stacked, flat), linears)

    def _own_rows(self, rows: Sequence[Tensor], inputs: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Rows of each example alone, [k, B, F, width], and inputs that name them 0, 1, ...; rows: [k, C, columns]."""
        own = []
        for table, some in zip(self.model.tables, rows, strict=True):
            parts = [inputs[f].reshape(*inputs[f].shape[:2], -1) for f in table.fields]
            places = torch.cat(parts, dim=2)
            spread = places.flatten(1).unsqueeze(2).expand(-1, -1, table.width)
            own.append(some[..., : table.width].gather(1, spread).view(*places.shape, table.width))
            number = torch.arange(places.shape[2], device=places.device).expand_as(places)
            for f, part in zip(
                table.fields, torch.split_with_sizes(number, [p.shape[2] for p in parts], dim=2), strict=True
            ):
                inputs[f] = part.reshape(inputs[f].shape).contiguous()
        return own, inputs

    def _find_linears(self, state: ModelState, rows: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[str]:
        """Linear layers that are called once for an example, with one vector, and share their parameters with none."""
        layout = {s.name for s in self.model.dense_layout}
        owners: dict[int, int] = {}
        for _, parameter in self.model.module.named_parameters(remove_duplicate=False):
            owners[id(parameter)] = owners.get(id(parameter), 0) + 1
        calls: dict[str, list[torch.Size]] = {}
        likely = []
        for name, part in self._modules.items():
            if isinstance(part, nn.Linear):
                own = [f"{name}.{which}".lstrip(".") for which, _ in part.named_parameters()]
                if layout.issuperset(own) and all(owners[id(p)] == 1 for p in part.parameters()):
                    likely.append(name)

        def note(name: str, given: Tensor, out: Tensor) -> Tensor:
            calls.setdefault(name, []).append(given.shape)
            return out

        with torch.no_grad(), _Hooks(self._modules, likely, note):
            values = self.model.unpack(state.dense[0], [r[0, 0] for r in rows])
            buffers = {name: b[0].clone() for name, b in state.buffers.items()}
            self.model.forward(values, buffers, [x[0] for x in inputs])
        return [name for name in likely if [s[:-1].numel() for s in calls.get(name, [])] == [1]]

    def _stacked(self, flat: Sequence[Tensor], linears: list[str], names: list[str]) -> list[Tensor]:
        tables, buffers = len(self.model.tables), len(names)
        dense, labels = flat[0], flat[-1]
        rows, state = list(flat[1 : 1 + tables]), list(flat[1 + tables : 1 + tables + buffers])
        inputs = list(flat[1 + tables + buffers : -1])
        of_linears = {f"{name}.{which}".lstrip(".") for name in linears for which in ("weight", "bias")}
        sizes = [self._width(name) for name in linears]

        def example(
            values: list[Tensor], state: list[Tensor], rows: list[Tensor], inputs: list[Tensor], label: Tensor
        ) -> list[Tensor]:
            moved = [s.name not in of_linears for s in self.model.dense_layout]
            rest = [v for v, is_rest in zip(values, moved, strict=True) if is_rest]

            def loss(rest: list[Tensor], zeros: list[Tensor]) -> tuple[Tensor, tuple[list[Tensor], Tensor]]:
                left = iter(rest)
                whole = [next(left) if is_rest else v for v, is_rest in zip(values, moved, strict=True)]
                whole += self.model.unpack_rows(rows)
                seen: dict[str, Tensor] = {}

                def note(name: str, given: Tensor, out: Tensor) -> Tensor:
                    seen[name] = given
                    if name in self.norms:
                        return out
                    return out + zeros[linears.index(name)].view(out.shape)

                with _Hooks(self._modules, [*linears, *self.norms], note):
                    outputs = self.model.forward(whole, dict(zip(names, state, strict=True)), [x[None] for x in inputs])
                noted = [seen[name].reshape(-1) for name in (*linears, *self.norms)]
                return self.model.loss.function(outputs, label[None]), (noted, outputs[0])

            zeros = [label.new_zeros(size) for size in sizes]
            call = grad_and_value(loss, argnums=(0, 1), has_aux=True)
            (by_rest, slopes), (_, (noted, output)) = call(rest, zeros)
            flat_rest = torch.cat([r.reshape(-1) for r in by_rest]) if by_rest else label.new_zeros(0)
            return [*slopes, *noted, flat_rest, output]

        def edge(
            dense: Tensor, state: list[Tensor], rows: list[Tensor], inputs: list[Tensor], labels: Tensor
        ) -> list[Tensor]:
            values = self.model.unpack_dense(dense)
            found: list[Tensor] = vmap(lambda r, x, y: example(values, state, r, x, y))(rows, inputs, labels)
            return found

        found: list[Tensor] = vmap(edge)(dense, state, rows, inputs, labels)
        return found

    def _width(self, name: str) -> int:
        part = self._modules[name]
        assert isinstance(part, nn.Linear)
        return part.out_features

    def _unflatten(self, found: list[Tensor], linears: list[str]) -> PerExample:
        at = {s.name: slice(s.start, s.stop) for s in self.model.dense_layout}
        n, left = len(linears), iter(found)
        slopes = [next(left) for _ in range(n)]
        given = [next(left) for _ in range(n)]
        numbers = tuple(next(left) for _ in self.norms)
        rest = next(left)
        parts, taken = [], set()
        for name, slope, one in zip(linears, slopes, given, strict=True):
            weight, bias = f"{name}.weight".lstrip("."), f"{name}.bias".lstrip(".")
            parts.append(Linear(slope, one, at[weight], at.get(bias)))
            taken |= {weight, bias}
        places = [torch.arange(where.start, where.stop) for name, where in at.items() if name not in taken]
        place = torch.cat(places).to(rest.device) if places else torch.zeros(0, dtype=torch.long, device=rest.device)
        return PerExample(parts, rest, place, numbers, next(left))


class _Hooks:
    """Calls ``note(name, first argument, output)`` after each call of the named modules, and takes its result."""

    def __init__(self, modules: Mapping[str, nn.Module], names: Sequence[str], note: "_Note") -> None:
        self._modules, self._names, self._note = modules, names, note
        self._handles: list[torch.utils.hooks.RemovableHandle] = []

    def __enter__(self) -> None:
        for name in self._names:
            self._handles.append(self._modules[name].register_forward_hook(self._hook(name)))

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _hook(self, name: str) -> "_Hook":
        return lambda _, args, output: self._note(name, args[0], output)


class _Note(Protocol):
    def __call__(self, name: str, given: Tensor, out: Tensor, /) -> Tensor: ...


class _Hook(Protocol):
    def __call__(self, module: nn.Module, args: tuple[Tensor, ...], output: Tensor, /) -> Tensor: ...
