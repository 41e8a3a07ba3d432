"""Outputs, losses and gradients of k edges' models on k batches, stacked or one at a time.

``Stacked`` runs ``vmap(grad(functional_call))`` over the user's module: one call for all edges. A call that
keeps coming is recorded as a flat list of tensor operations, which leaves out the Python work of vmap and grad.
``OneAtATime`` is a plain loop with autograd: slow, for modules that vmap does not take, and for debugging.
Both have the same interface; nothing else in the package computes a gradient.
"""

import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol, final

import torch
from torch import Tensor
from torch.func import grad_and_value, vjp, vmap

from alphaedge.core.model import Model
from alphaedge.core.replays import Recordings, Replays, agrees, with_autograd
from alphaedge.errors import InvalidValue

Buffers = Mapping[str, Tensor]


@final
class Gradient(NamedTuple):
    """What one forward and backward pass of k edges gives."""

    dense: Tensor  # [k, D]
    rows: tuple[Tensor, ...]  # per table [k, C, width]
    outputs: Tensor  # [k, B], before learning
    losses: Tensor  # [k]
    buffers: dict[str, Tensor]  # [k, ...], after the pass (running statistics move)


class Gradients(Protocol):
    """Runs k models on k batches."""

    model: Model

    def gradient(
        self,
        dense: Tensor,
        rows: Sequence[Tensor],
        buffers: Buffers,
        inputs: Sequence[Tensor],
        labels: Tensor,
        training: bool = True,
    ) -> Gradient:
        """Gradient of each edge's mean loss by its dense part and rows, with the outputs on the way."""
        ...

    def outputs(self, dense: Tensor, rows: Sequence[Tensor], buffers: Buffers, inputs: Sequence[Tensor]) -> Tensor:
        """Each edge's outputs [k, B] in evaluation mode."""
        ...

    def losses(
        self, dense: Tensor, rows: Sequence[Tensor], buffers: Buffers, inputs: Sequence[Tensor], labels: Tensor
    ) -> Tensor:
        """Mean losses [k, M, T] of M models of each edge on T batches of it, in evaluation mode.

        dense [k, M, D], rows [k, M, T, C, width], buffers [k, ...], labels [k, T, B]; inputs [k, T, B, ...] with what
        is told after them (``Model.told``), which is the same for all models of an edge.
        """
        ...


@final
class OneAtATime:
    """A loop over the edges with plain autograd."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def gradient(
        self,
        dense: Tensor,
        rows: Sequence[Tensor],
        buffers: Buffers,
        inputs: Sequence[Tensor],
        labels: Tensor,
        training: bool = True,
    ) -> Gradient:
        """See ``Gradients.gradient``."""
        _set_mode(self.model, training)
        inputs, parts = self.model.told(rows, inputs), []
        for edge in range(len(dense)):
            values = self.model.unpack(dense[edge], [r[edge] for r in rows])
            with torch.inference_mode(False), torch.enable_grad():
                leaves = [value.detach().clone().requires_grad_() for value in values]
                state = {name: b[edge].clone() for name, b in buffers.items()}
                outputs = self.model.forward(leaves, state, [x[edge].clone() for x in inputs])
                loss = self.model.loss.function(outputs, labels[edge].clone())
                slopes = torch.autograd.grad(loss, leaves, allow_unused=True)
            slopes = tuple(
                torch.zeros_like(x) if s is None else s.to_dense() for s, x in zip(slopes, leaves, strict=True)
            )
            parts.append(
                (
                    self.model.pack(slopes, 0),
                    outputs.detach(),
                    loss.detach(),
                    {n: b.detach() for n, b in state.items()},
                )
            )
        return Gradient(
            torch.stack([p[0][0] for p in parts]),
            tuple(torch.stack([p[0][1][t] for p in parts]) for t in range(len(rows))),
            torch.stack([p[1] for p in parts]),
            torch.stack([p[2] for p in parts]),
            {n: torch.stack([p[3][n] for p in parts]) for n in buffers},
        )

    def outputs(self, dense: Tensor, rows: Sequence[Tensor], buffers: Buffers, inputs: Sequence[Tensor]) -> Tensor:
        """See ``Gradients.outputs``."""
        _set_mode(self.model, False)
        inputs = self.model.told(rows, inputs)
        # Not in inference mode, whose tensors a module may keep; autograd would refuse them later.
        with torch.inference_mode(False), torch.no_grad():
            return torch.stack(
                [
                    self.model.forward(
                        self.model.unpack(dense[e], [r[e] for r in rows]),
                        {n: b[e].clone() for n, b in buffers.items()},
                        [x[e] for x in inputs],
                    )
                    for e in range(len(dense))
                ]
            )

    def losses(
        self, dense: Tensor, rows: Sequence[Tensor], buffers: Buffers, inputs: Sequence[Tensor], labels: Tensor
    ) -> Tensor:
        """See ``Gradients.losses``."""
        _set_mode(self.model, False)
        with torch.inference_mode(False), torch.no_grad():
            found = labels.new_empty(*dense.shape[:2], labels.shape[1])
            for k, m, t in itertools.product(*map(range, found.shape)):
                values = self.model.unpack(dense[k, m], [r[k, m, t] for r in rows])
                state = {n: b[k].clone() for n, b in buffers.items()}
                outputs = self.model.forward(values, state, [x[k, t] for x in inputs])
                found[k, m, t] = self.model.loss.function(outputs, labels[k, t])
        return found


@final
class Stacked:
    """All edges in one vectorised call.

    trace: whether calls are recorded. recordings: where they are kept for other processes; without it, only calls that
    keep coming are recorded.
    """

    def __init__(self, model: Model, *, trace: bool = True, recordings: Recordings | None = None) -> None:
        self.model = model
        self._replays = Replays(trace=trace, recordings=recordings)
        self._nests: bool | None = None  # whether the module takes vmap below vmap; None before it was tried

    def gradient(
        self,
        dense: Tensor,
        rows: Sequence[Tensor],
        buffers: Buffers,
        inputs: Sequence[Tensor],
        labels: Tensor,
        training: bool = True,
    ) -> Gradient:
        """See ``Gradients.gradient``."""
        names, n_rows, n_buffers = list(buffers), len(rows), len(buffers)

        def one_loss(
            values: list[Tensor], state: list[Tensor], inputs: list[Tensor], labels: Tensor
        ) -> tuple[Tensor, tuple[Tensor, list[Tensor]]]:
            moved = {name: b.clone() for name, b in zip(names, state, strict=True)}
            outputs = self.model.forward(values, moved, inputs)
            return self.model.loss.function(outputs, labels), (outputs, [moved[n] for n in names])

        def stacked(*flat: Tensor) -> list[Tensor]:
            r, b, x = _cut(flat[1:-1], n_rows, n_buffers)
            # By each parameter, not by the vector: the gradient of a slice is as long as what it was cut from.
            call = vmap(grad_and_value(one_loss, has_aux=True), randomness="different")
            told = self.model.told(r, x)
            slopes, (loss, (outputs, moved)) = call(self.model.unpack(flat[0], r), list(b), told, flat[-1])
            by_dense, by_rows = self.model.pack(slopes, 1)
            return [by_dense, *by_rows, outputs, loss, *moved]

        def first_edge() -> list[Tensor]:
            rest = [r[:1] for r in rows], {n: b[:1] for n, b in buffers.items()}, [x[:1] for x in inputs], labels[:1]
            found = OneAtATime(self.model).gradient(dense[:1], *rest, training)
            return [found.dense, *found.rows, found.outputs, found.losses, *found.buffers.values()]

        _set_mode(self.model, training)
        flat = [dense, *rows, *buffers.values(), *inputs, labels]
        out = self._replays.run(("gradient", training), stacked, flat, first_edge)
        moved = dict(zip(names, out[3 + n_rows :], strict=True))
        return Gradient(out[0], tuple(out[1 : 1 + n_rows]), out[1 + n_rows], out[2 + n_rows], moved)

    def outputs(self, dense: Tensor, rows: Sequence[Tensor], buffers: Buffers, inputs: Sequence[Tensor]) -> Tensor:
        """See ``Gradients.outputs``."""
        n_rows, names = len(rows), list(buffers)

        def stacked(*flat: Tensor) -> list[Tensor]:
            r, b, x = _cut(flat[1:], n_rows, len(names))
            call = vmap(partial(self._outputs, names), randomness="different")
            return [call(self.model.unpack(flat[0], r), list(b), self.model.told(r, x))]

        _set_mode(self.model, False)
        with torch.no_grad():
            return self._replays.run("outputs", stacked, [dense, *rows, *buffers.values(), *inputs])[0]

    def losses(
        self, dense: Tensor, rows: Sequence[Tensor], buffers: Buffers, inputs: Sequence[Tensor], labels: Tensor
    ) -> Tensor:
        """See ``Gradients.losses``."""
        n_rows, names, n_dense = len(rows), list(buffers), len(self.model.dense_layout)

        def one(values: list[Tensor], of_ids: list[Tensor], state: list[Tensor], x: list[Tensor]) -> Tensor:
            return self._outputs(names, [*values, *of_ids], state, x)

        def stacked(*flat: Tensor) -> list[Tensor]:
            r, b, x = _cut(flat[1:-1], n_rows, len(names))
            values = self.model.unpack(flat[0], r)
            # Nested, so that what the batches or models of an edge share is done once: inputs are normalised, say.
            call = vmap(one, (None, 0, None, 0), randomness="different")
            call = vmap(vmap(call, (0, 0, None, None), randomness="different"), randomness="different")
            outputs = call(values[:n_dense], values[n_dense:], list(b), list(x))
            known = flat[-1].unsqueeze(1).expand(outputs.shape).flatten(0, 2)
            return [vmap(self.model.loss.function)(outputs.flatten(0, 2), known).view(outputs.shape[:3])]

        _set_mode(self.model, False)
        flat, loop = [dense, *rows, *buffers.values(), *inputs, labels], OneAtATime(self.model)
        if self._nests is None:
            first = [r[:1] for r in rows], {n: b[:1] for n, b in buffers.items()}, [x[:1] for x in inputs], labels[:1]
            expected = loop.losses(dense[:1], *first)
            self._nests = agrees(with_autograd(stacked), lambda *_: [expected], [x[:1] for x in flat])
        if not self._nests:
            return loop.losses(dense, rows, buffers, inputs, labels)
        with torch.no_grad():
            return self._replays.run("losses", stacked, flat)[0]

    def _outputs(self, names: list[str], values: list[Tensor], state: list[Tensor], inputs: list[Tensor]) -> Tensor:
        """The outputs [B] of one edge."""

        def forward(values: list[Tensor]) -> Tensor:
            return self.model.forward(values, {n: b.clone() for n, b in zip(names, state, strict=True)}, inputs)

        outputs: Tensor = vjp(forward, values)[0]  # vmap takes recurrent layers only below a gradient
        return outputs


def _cut(flat: Sequence[Tensor], rows: int, buffers: int) -> tuple[Sequence[Tensor], ...]:
    """The first few tensors, the next few, and the rest: rows, buffers and inputs."""
    return flat[:rows], flat[rows : rows + buffers], flat[rows + buffers :]


def _set_mode(model: Model, training: bool) -> None:
    if model.module.training != training:  # walking all submodules costs as much as a few tensor operations
        model.module.train(training)


def choose(
    model: Model,
    dense: Tensor,
    rows: Sequence[Tensor],
    buffers: Buffers,
    inputs: Sequence[Tensor],
    labels: Tensor,
    recordings: Recordings | None = None,
) -> tuple[Gradients, str | None]:
    """``Stacked`` if it gives this model the plain loop's numbers on this batch, else ``OneAtATime`` and why.

    The numbers are compared in evaluation mode, on one edge; in training mode it need only run.
    """
    loop = OneAtATime(model)
    args = (
        dense[:1],
        [r[:1] for r in rows],
        {n: b[:1] for n, b in buffers.items()},
        [x[:1] for x in inputs],
        labels[:1],
    )
    expected = loop.gradient(*args, training=False)  # an error here is the module's own: let it show
    stacked = Stacked(model, recordings=recordings)
    try:
        found = stacked.gradient(*args, training=False)
        stacked.gradient(*args, training=True)
        stacked.outputs(*args[:-1])
    except InvalidValue:
        raise
    except Exception as error:
        return loop, f"vmap does not take this module ({type(error).__name__}: {str(error).splitlines()[0]})"
    pairs = zip(
        (expected.dense, *expected.rows, expected.outputs),
        (found.dense, *found.rows, found.outputs),
        strict=True,
    )
    if not all(torch.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in pairs):
        return loop, "vmap gives this module other numbers than the plain loop"
    return stacked, None
