"""A whole prediction as one function of tensors: rows looked up, both models run, their outputs blended.

Small models spend their time between operations, not in them. So the function is recorded once and run by TorchScript's
interpreter, if that gives what the module itself gives, for any number of examples; else as Python runs it.
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
from alphaedge.edge.inputs.lookup import Wanted, placed
from alphaedge.edge.log import warn
from alphaedge.edge.serving.bound import BoundModule, views

Function = Callable[..., Tensor]
Outputs = Callable[[Sequence[Tensor], Sequence[Tensor], Mapping[str, Tensor], Sequence[Tensor]], Tensor]
SIZES: Final = (3, 1, 2, 7)  # numbers of examples that are tried; the first one is recorded
SPREAD: Final = 0.1  # of what is added to initial parameters, which may all be 0
WARM: Final = 3  # rounds of calls until the interpreter has settled


@final
class TracedPrediction:
    """Predictions of the models whose parameters are there: the mixed one, and its twin if there is one.

    whose: their names in a version of the parameters. lacking: whether some ids have no row, which costs a little more.
    example: inputs of the model, any, to try it with. ``way`` says how it is done: recorded, bound or plain.
    """

    def __init__(self, model: Model, whose: Sequence[str], *, lacking: bool, example: Sequence[Tensor]) -> None:
        self._model, self._whose, self._lacking = model, tuple(whose), lacking
        self._buffers = list(model.initial_buffers())
        self._loop = OneAtATime(model)
        with torch.inference_mode():
            self.way, self._function = self._choose([self._trial(example, size) for size in SIZES])

    def state(self, tensors: Mapping[str, Tensor]) -> list[Tensor]:
        """What every call needs of a version of the parameters."""
        found = [tensors["share"]]
        for who in self._whose:
            found += views(self._model, tensors[f"{who}.dense"])
            tables = [tensors[f"{who}.{t}"] for t in range(len(self._model.tables))]
            found += [x if len(x) else x.new_zeros(1, x.shape[1]) for x in tables]  # nobody's row, to be looked at
            found += [tensors[f"{who}.buffer.{name}"] for name in self._buffers]
        return found

    def __call__(self, state: Sequence[Tensor], wanted: Sequence[Wanted], inputs: Sequence[Tensor]) -> Tensor:
        """Predictions [B]. wanted: what ids stand for, table by table; inputs: with places instead of ids."""
        with torch.inference_mode():
            return self._function(*state, *(x for one in wanted for x in one if x is not None), *inputs)

    def _choose(self, trials: Sequence[Sequence[Tensor]]) -> tuple[str, Function]:
        """The fastest way that gives what the module gives when it is called the plain way."""
        expected = [self._plain(*trial) for trial in trials]
        reason: object = ""
        for way in ("recorded", "bound"):
            try:
                function = self._bound()
                if way == "recorded":
                    function = _recorded(function, trials[0])
                for _ in range(WARM):
                    found = [function(*trial) for trial in trials]
                    if not all(map(_same, found, expected)):
                        raise RuntimeError("the module gives something else when it is bound to its parameters")
                return way, function
            except Exception as error:  # whatever a user's module does not bear: there is a slower way
                reason = error
        warn("predictions are made the slow way", reason=reason)
        return "plain", self._plain

    def _bound(self) -> Function:
        bound = BoundModule(self._model)
        return lambda *flat: self._blend(bound.outputs, *flat)

    def _plain(self, *flat: Tensor) -> Tensor:
        """The slow way, which takes any module."""

        def outputs(
            views: Sequence[Tensor], rows: Sequence[Tensor], buffers: Mapping[str, Tensor], inputs: Sequence[Tensor]
        ) -> Tensor:
            dense = torch.cat([v.reshape(-1) for v in views]) if views else torch.zeros(0, dtype=self._model.dtype)
            stacked = {name: b.unsqueeze(0) for name, b in buffers.items()}
            given = ([r.unsqueeze(0) for r in rows], stacked, [x.unsqueeze(0) for x in inputs])
            return self._loop.outputs(dense.unsqueeze(0), *given)[0]

        return self._blend(outputs, *flat)

    def _blend(self, outputs: Outputs, *flat: Tensor) -> Tensor:
        left = list(flat)

        def take(count: int) -> list[Tensor]:
            found = left[:count]
            del left[:count]
            return found

        tables, share = len(self._model.tables), take(1)[0]
        models = [(take(len(self._model.dense_layout)), take(tables), take(len(self._buffers))) for _ in self._whose]
        wanted = [Wanted(*take(3)) if self._lacking else Wanted(take(1)[0], None, None) for _ in range(tables)]
        found = []
        for dense, matrices, state in models:
            rows = [one.values(matrix) for one, matrix in zip(wanted, matrices, strict=True)]
            found.append(outputs(dense, rows, dict(zip(self._buffers, state, strict=True)), left))
        mixed = found[0] if len(found) == 1 else combine(share, found[0].unsqueeze(0), found[1].unsqueeze(0))[0]
        return self._model.loss.link(mixed)

    def _trial(self, example: Sequence[Tensor], size: int) -> list[Tensor]:
        """Arguments of a call, made up."""
        rng = torch.Generator().manual_seed(size)
        model = self._model

        def near(x: Tensor) -> Tensor:
            return x + SPREAD * torch.randn(x.shape, generator=rng, dtype=x.dtype)

        tensors = {"share": torch.tensor([0.7], dtype=model.dtype)}
        for who in self._whose:
            tensors |= {f"{who}.dense": near(model.initial_dense())}
            tensors |= {f"{who}.{t}": near(model.initial_table(t)) for t in range(len(model.tables))}
            tensors |= {f"{who}.buffer.{name}": buffer for name, buffer in model.initial_buffers().items()}
        inputs, keys = placed(model, [x[torch.arange(size) % len(x)] for x in example])
        wanted: list[Tensor] = []
        for t, some in enumerate(keys):
            start = model.initial_table(t)
            rows = torch.randint(len(start), some.shape, generator=rng)
            wanted += [rows, rows % 2 == 0, near(start)[rows]] if self._lacking else [rows]
        return [*self.state(tensors), *wanted, *inputs]


def _same(found: Tensor, expected: Tensor) -> bool:
    return found.shape == expected.shape and torch.allclose(found, expected, rtol=1e-5, atol=1e-6, equal_nan=True)


def _recorded(function: Function, arguments: Sequence[Tensor]) -> Function:
    """The function without Python. What depends on more than tensors and their sizes is not recorded: it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", TracerWarning)  # a branch would stay as it fell this time
        trace: Callable[..., Function] = torch.jit.trace
        return trace(function, tuple(arguments), check_trace=False)
