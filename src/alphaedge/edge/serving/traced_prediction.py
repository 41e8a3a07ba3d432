"""A whole prediction as one function of tensors: look up rows, run both models, blend their outputs.

Small models spend their time between operations, not in them. So the function is traced once and run by TorchScript's
interpreter, if its outputs equal those of the module itself for any number of examples; otherwise Python runs it.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

import torch
from torch import Tensor
from torch.jit._trace import TracerWarning

from alphaedge.core.gradients import OneAtATime
from alphaedge.core.home import combine
from alphaedge.core.model import Model
from alphaedge.edge.inputs.lookup import RowLookup, enumerate_keys
from alphaedge.edge.log import warn
from alphaedge.edge.serving.bound_module import BoundModule, parameter_views

Function = Callable[..., Tensor]
Outputs = Callable[[Sequence[Tensor], Sequence[Tensor], Mapping[str, Tensor], Sequence[Tensor]], Tensor]
TRIAL_SIZES: Final = (3, 1, 2, 7)  # numbers of examples to try; the function is traced with the first
NOISE: Final = 0.1  # standard deviation of what trials add to initial parameters, which may all be 0
WARM_UP_CALLS: Final = 3  # until the interpreter has finished optimizing


@final
class TracedPrediction:
    """Predicts with the mixed model and, if there is one, the home model.

    models: their names in the parameters. new_ids: whether some ids may have no row, which costs a little more. sample:
    any inputs, to try the model with. ``path`` says how the function runs: traced, bound or plain.
    """

    def __init__(self, model: Model, models: Sequence[str], *, new_ids: bool, sample: Sequence[Tensor]) -> None:
        self._model, self._models, self._new_ids = model, tuple(models), new_ids
        self._buffers = list(model.initial_buffers())
        self._loop = OneAtATime(model)
        with torch.inference_mode():
            self.path, self._function = self._choose([self._trial(sample, size) for size in TRIAL_SIZES])

    def state(self, tensors: Mapping[str, Tensor]) -> list[Tensor]:
        """Put together the parameters that every call takes."""
        state = [tensors["share"]]
        for name in self._models:
            state += parameter_views(self._model, tensors[f"{name}.dense"])
            tables = [tensors[f"{name}.{t}"] for t in range(len(self._model.tables))]
            state += [x if len(x) else x.new_zeros(1, x.shape[1]) for x in tables]  # a row to read where there is none
            state += [tensors[f"{name}.buffer.{buffer}"] for buffer in self._buffers]
        return state

    def __call__(self, state: Sequence[Tensor], lookups: Sequence[RowLookup], inputs: Sequence[Tensor]) -> Tensor:
        """Compute outputs [M, B]: first the predictions, then, if there is a home model, what it alone would predict.

        lookups: for each id table. inputs: with places instead of ids.
        """
        with torch.inference_mode():
            return self._function(*state, *(x for lookup in lookups for x in lookup if x is not None), *inputs)

    def _choose(self, trials: Sequence[Sequence[Tensor]]) -> tuple[str, Function]:
        """Choose the fastest function whose outputs equal those of the plain one."""
        expected = [self._plain(*trial) for trial in trials]
        reason: object = ""
        for path in ("traced", "bound"):
            try:
                function = self._bind()
                if path == "traced":
                    function = _trace(function, trials[0])
                for _ in range(WARM_UP_CALLS):
                    outputs = [function(*trial) for trial in trials]
                    if not all(map(_equal, outputs, expected)):
                        raise RuntimeError("the module's outputs differ when its parameters are replaced")
                return path, function
            except Exception as error:  # anything that a user's module may raise: a slower way remains
                reason = error
        warn("slow_predictions", reason=reason)
        return "plain", self._plain

    def _bind(self) -> Function:
        bound = BoundModule(self._model)
        return lambda *flat: self._blend(bound.outputs, *flat)

    def _plain(self, *flat: Tensor) -> Tensor:
        """Predict the slow way, which works for any module."""

        def outputs(
            views: Sequence[Tensor], rows: Sequence[Tensor], buffers: Mapping[str, Tensor], inputs: Sequence[Tensor]
        ) -> Tensor:
            dense = torch.cat([v.reshape(-1) for v in views]) if views else torch.zeros(0, dtype=self._model.dtype)
            stacked = {name: b.unsqueeze(0) for name, b in buffers.items()}
            given = ([r.unsqueeze(0) for r in rows], stacked, [x.unsqueeze(0) for x in inputs])
            return self._loop.outputs(dense.unsqueeze(0), *given)[0]

        return self._blend(outputs, *flat)

    def _blend(self, outputs: Outputs, *flat: Tensor) -> Tensor:
        """Run each model on the arguments of a call, and blend their outputs."""
        remaining = list(flat)

        def take(count: int) -> list[Tensor]:
            taken = remaining[:count]
            del remaining[:count]
            return taken

        tables, share = len(self._model.tables), take(1)[0]
        models = [(take(len(self._model.dense_layout)), take(tables), take(len(self._buffers))) for _ in self._models]
        lookups = [RowLookup(*take(3)) if self._new_ids else RowLookup(take(1)[0], None, None) for _ in range(tables)]
        each = []
        for dense, matrices, buffers in models:
            rows = [lookup.gather(matrix) for lookup, matrix in zip(lookups, matrices, strict=True)]
            each.append(outputs(dense, rows, dict(zip(self._buffers, buffers, strict=True)), remaining))
        if len(each) == 1:
            return self._model.loss.link(each[0]).unsqueeze(0)
        blended = combine(share, each[0].unsqueeze(0), each[1].unsqueeze(0))[0]
        return torch.stack([self._model.loss.link(blended), self._model.loss.link(each[1])])

    def _trial(self, sample: Sequence[Tensor], size: int) -> list[Tensor]:
        """Make up the arguments of a call with ``size`` examples."""
        rng = torch.Generator().manual_seed(size)
        model = self._model

        def perturb(x: Tensor) -> Tensor:
            return x + NOISE * torch.randn(x.shape, generator=rng, dtype=x.dtype)

        tensors = {"share": torch.tensor([0.7], dtype=model.dtype)}
        for name in self._models:
            tensors |= {f"{name}.dense": perturb(model.initial_dense())}
            tensors |= {f"{name}.{t}": perturb(model.initial_table(t)) for t in range(len(model.tables))}
            tensors |= {f"{name}.buffer.{buffer}": value for buffer, value in model.initial_buffers().items()}
        inputs, keys = enumerate_keys(model, [x[torch.arange(size) % len(x)] for x in sample])
        lookups: list[Tensor] = []
        for t, some in enumerate(keys):
            start = model.initial_table(t)
            rows = torch.randint(len(start), some.shape, generator=rng)
            lookups += [rows, rows % 2 == 0, perturb(start)[rows]] if self._new_ids else [rows]
        return [*self.state(tensors), *lookups, *inputs]


def _equal(outputs: Tensor, expected: Tensor) -> bool:
    return outputs.shape == expected.shape and torch.allclose(outputs, expected, rtol=1e-5, atol=1e-6, equal_nan=True)


def _trace(function: Function, arguments: Sequence[Tensor]) -> Function:
    """Trace a function. Raises if its result depends on more than tensors and their sizes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", TracerWarning)  # a branch would be frozen as it was taken this time
        trace: Callable[..., Function] = torch.jit.trace
        return trace(function, tuple(arguments), check_trace=False)
