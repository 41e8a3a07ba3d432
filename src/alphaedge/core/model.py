"""A user's ``nn.Module`` as AlphaEdge sees it: one flat vector, some id tables, a loss.

The module is never changed. Its parameters are split in two:

- the **dense part**, every parameter that is not declared as an id table, laid end to end in a vector of D numbers;
- the **id tables**, embedding parameters of which row r belongs to id r of a field. Several parameters that are
  looked up by the same ids (an embedding and a first-order weight, say) form one table with wider rows.

A forward pass gets only the rows that its batch names, as a small matrix, and ids renumbered to match.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, NamedTuple, final

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from alphaedge.core import labels as label_statistics
from alphaedge.core import tally
from alphaedge.core.labels import LABELS, LEVEL
from alphaedge.core.ridge import Ridge
from alphaedge.errors import InvalidValue, ModelError, check_choice

LOG_DELTA: Final = 0.2  # of a logarithm: a change by a fifth
LARGEST_LOG: Final = 80.0  # so that a wild output stays a finite float32
LossFunction = Callable[[Tensor, Tensor], Tensor]


def _identity(values: Tensor) -> Tensor:
    return values


@final
class Loss(NamedTuple):
    """A training loss (outputs, labels -> mean) and the link from a module's output to a prediction.

    centre: from what is known of the labels [3] to where a centred model's outputs are counted from, and their unit.
    inverse: from a label to the output that would predict it, where there is one: the inverse of the link.
    """

    function: LossFunction
    link: Callable[[Tensor], Tensor]
    centre: Callable[[Tensor], tuple[Tensor, Tensor]] = label_statistics.mean_and_deviation
    inverse: Callable[[Tensor], Tensor] = _identity


def _squared_error(outputs: Tensor, labels: Tensor) -> Tensor:
    return F.mse_loss(outputs, labels)


def _relative_error(outputs: Tensor, labels: Tensor) -> Tensor:
    # What 1-SMAPE is scored by. The size is detached: a larger prediction is no way to a smaller error.
    size = (outputs.detach().abs() + labels.abs()).clamp(min=1e-6)
    return ((outputs - labels).abs() / size).mean()


def _logarithm(labels: Tensor) -> Tensor:
    return labels.clamp(min=0).log1p()


def _log_error(outputs: Tensor, labels: Tensor) -> Tensor:
    # Squared for changes by less than LOG_DELTA, absolute beyond: one leap does not outweigh a hundred usual hours.
    return 2 * F.huber_loss(outputs, _logarithm(labels), delta=LOG_DELTA)


def _cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    # binary_cross_entropy_with_logits in fewer operations: -y log s(x) - (1 - y) log s(-x) = softplus(x) - y x
    return (F.softplus(outputs) - labels * outputs).mean()


LOSSES: Final[Mapping[str, Loss]] = {
    "bce": Loss(_cross_entropy, torch.sigmoid, label_statistics.log_odds),
    "mse": Loss(_squared_error, _identity),
    "log": Loss(_log_error, lambda outputs: torch.expm1(outputs.clamp(0, LARGEST_LOG)), inverse=_logarithm),
    "smape": Loss(_relative_error, _identity),
}


@final
@dataclass(frozen=True)
class IdTable:
    """Parameters whose row r belongs to id r: ``IdTable(fields=("item",), parameters=("item.weight",))``.

    ``fields`` are the batch fields that hold such ids; ``parameters`` are names as in ``named_parameters()``.
    """

    fields: tuple[str, ...]
    parameters: tuple[str, ...]


class _Slice(NamedTuple):
    name: str
    start: int
    stop: int
    shape: torch.Size


@final
class TableLayout(NamedTuple):
    """How the parameters of one id table lie side by side in a row of ``width`` numbers.

    tallied: whether the ids are tallied as well (core.tally); a row has ``columns`` numbers then.
    """

    name: str
    fields: tuple[int, ...]  # positions in Model.fields
    slices: tuple[_Slice, ...]
    rows: int
    width: int
    tallied: bool = False

    @property
    def columns(self) -> int:
        """Numbers of a row: parameters, the own tally, and the tally that was heard."""
        return self.width + 2 * tally.COLUMNS * self.tallied

    @property
    def told(self) -> int:
        """Numbers of a row, from the first on, that peers may be told: all but what was heard from others."""
        return self.width + tally.COLUMNS * self.tallied


@final
class Model:
    """Any ``nn.Module`` with its field order, id tables and loss.

    Arguments
    ---------
    module: called as ``module(*[batch[f] for f in fields])``, and with the tallies after these; returns one number per
        example, [B] or [B, 1] (a logit for ``loss="bce"``).
    fields: the batch fields that ``forward`` takes, in order.
    tables: the id tables among its parameters, if any.
    tallies: id fields whose tallies ``forward`` takes, in order: three numbers for each example, [B, 3] (core.tally).
    loss: ``"bce"`` (outputs are logits), ``"mse"``, ``"smape"``, ``"log"`` for numbers of 0 or more that change by
        factors (outputs are logarithms), or a ``Loss`` of your own.
    centre: whether the module's outputs are counted from the labels so far, in their unit (core.labels).
    ridge: a part of the module with a vector ``weight`` that is solved for, and its inputs' ``gram`` (core.ridge).
    last: a number field with the newest known value of the label (the first of its numbers): outputs are counted from
        it, in the unit of the changes since then.

    Parameters with ``requires_grad=False`` are constants: neither trained nor mixed.

    >>> model = Model(nn.Linear(3, 1), fields=["x"], loss="mse")
    >>> model.dense_size
    4
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        fields: Sequence[str],
        tables: Sequence[IdTable] = (),
        tallies: Sequence[str] = (),
        loss: str | Loss = "bce",
        centre: bool = False,
        last: str | None = None,
        ridge: str | None = None,
    ) -> None:
        if not fields:
            raise InvalidValue("fields", list(fields), "at least one field name")
        if isinstance(loss, str):
            check_choice("loss", loss, LOSSES)
            loss = LOSSES[loss]
        self.module = module
        self.fields = tuple(fields)
        self.loss = loss
        if last is not None:
            check_choice("last", last, fields)
        self.last = None if last is None else self.fields.index(last)
        self.centred = centre or last is not None
        parameters = {name: p for name, p in module.named_parameters() if p.requires_grad}
        if not parameters:
            raise InvalidValue("module", type(module).__name__, "a module with at least one trainable parameter")
        self.dtype = _single_dtype(parameters)
        self.tables = tuple(_table_layout(table, parameters, self.fields, module, tallies) for table in tables)
        self.tallies = tuple(_tallied_field(name, self.fields, self.tables) for name in tallies)
        in_tables = [part.name for table in self.tables for part in table.slices]
        if len(set(in_tables)) < len(in_tables):
            raise InvalidValue("tables", in_tables, "each parameter in one id table only")
        dense, offset = [], 0
        for name, parameter in parameters.items():
            if name not in in_tables:
                dense.append(_Slice(name, offset, offset + parameter.numel(), parameter.shape))
                offset += parameter.numel()
        self.dense_layout = tuple(dense)
        self.dense_size = offset
        self.ridge = None if ridge is None else _ridge(ridge, dense, module, self.centred)
        self._names = [s.name for s in dense] + in_tables
        named = [self.fields[f] for table in self.tables for f in table.fields]
        if len(set(named)) < len(named):
            twice = sorted({f for f in named if named.count(f) > 1})
            raise InvalidValue("tables", twice, "each field in one id table only (its ids are renumbered once)")
        self._caller = _Caller(module)
        module.train()  # all of it: from now on the mode of the whole is the mode of its parts

    def initial_dense(self) -> Tensor:
        """The module's own dense parameters as a vector [D]."""
        if not self.dense_layout:
            return next(self.module.parameters()).new_zeros(0, dtype=self.dtype)
        parameters = dict(self.module.named_parameters())
        return torch.cat([parameters[s.name].detach().reshape(-1) for s in self.dense_layout]).clone()

    def initial_table(self, index: int) -> Tensor:
        """The module's own rows of id table ``index`` as a matrix [rows, columns], with empty tallies."""
        parameters = dict(self.module.named_parameters())
        table = self.tables[index]
        parts = [parameters[c.name].detach().reshape(table.rows, -1) for c in table.slices]
        return F.pad(torch.cat(parts, dim=1), (0, table.columns - table.width))

    def initial_buffers(self) -> dict[str, Tensor]:
        """Buffers (running statistics and the like) and untrained parameters, by name."""
        frozen = {n: p.detach().clone() for n, p in self.module.named_parameters() if not p.requires_grad}
        own = {LABELS: 3} if self.tallies or self.centred else {}
        own |= {LEVEL: 1} if self.last is not None else {}
        some = next(self.module.parameters()).detach()
        known = {name: some.new_zeros(size, dtype=self.dtype) for name, size in own.items()}
        return frozen | {n: b.detach().clone() for n, b in self.module.named_buffers()} | known

    def statistics(self) -> tuple[str, ...]:
        """The names of floating-point buffers: running statistics that may be mixed like parameters."""
        return tuple(n for n, b in self.module.named_buffers() if b.is_floating_point())

    def unpack(self, dense: Tensor, rows: Sequence[Tensor]) -> list[Tensor]:
        """Dense vectors [..., D] and rows [..., C, width] as views in the shapes of the module's parameters."""
        return self.unpack_dense(dense) + self.unpack_rows(rows)

    def unpack_dense(self, dense: Tensor) -> list[Tensor]:
        """The first part of ``unpack``."""
        return [_shaped(dense[..., s.start : s.stop], s.shape or (1,)) for s in self.dense_layout]

    def unpack_rows(self, rows: Sequence[Tensor]) -> list[Tensor]:
        """The second part of ``unpack``."""
        tables = zip(self.tables, rows, strict=True)
        return [_shaped(matrix[..., c.start : c.stop], c.shape[1:]) for t, matrix in tables for c in t.slices]

    def pack(self, values: Sequence[Tensor], leading: int) -> tuple[Tensor, list[Tensor]]:
        """The inverse of ``unpack`` for tensors with ``leading`` stacked dimensions."""
        flat = [v.flatten(leading) for v in values[: len(self.dense_layout)]]
        left = list(values[len(self.dense_layout) :])
        rows = []
        for table in self.tables:
            columns = [left.pop(0).flatten(leading + 1) for _ in table.slices]
            rows.append(columns[0] if len(columns) == 1 else torch.cat(columns, dim=-1))
        return torch.cat(flat, dim=-1) if flat else values[0].new_zeros(*values[0].shape[:leading], 0), rows

    def untold(self, examples: int) -> list[Tensor]:
        """The tallies of ids that nothing is known of, to call the module itself with: [examples, 3] each."""
        some = next(self.module.parameters()).detach()
        return [some.new_zeros(examples, tally.TOLD, dtype=self.dtype) for _ in self.tallies]

    def told(self, rows: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
        """Inputs [..., B, ...] with the tallies after them; rows: per table [..., C, columns]."""
        whole = list(inputs)
        for field, t in self.tallies:
            known = tally.tell(rows[t], self.tables[t].width)
            place = inputs[field].unsqueeze(-1).expand(*inputs[field].shape, known.shape[-1])
            whole.append(known.gather(-2, place))
        return whole

    def forward(self, values: Sequence[Tensor], buffers: dict[str, Tensor], inputs: Sequence[Tensor]) -> Tensor:
        """One edge's outputs [B] from its parameters as ``unpack`` gives them, its buffers and inputs [B, ...]."""
        shaped = [
            v.view(s.shape) if not s.shape else v
            for v, s in zip(values[: len(self.dense_layout)], self.dense_layout, strict=True)
        ]
        named = dict(zip(self._names, [*shaped, *values[len(self.dense_layout) :]], strict=True))
        state = {f"module.{name}": value for name, value in {**named, **buffers}.items() if name not in (LABELS, LEVEL)}
        outputs, moved = functional_call(self._caller, state, tuple(inputs))
        buffers.update({name: moved[name] for name in buffers if name in moved})
        examples = inputs[0].shape[0]
        if not isinstance(outputs, Tensor) or outputs.shape not in ((examples,), (examples, 1)):
            found = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
            name = type(self.module).__name__
            raise InvalidValue(f"output of {name}", found, f"({examples},) or ({examples}, 1), one number per example")
        return self.placed(outputs.reshape(examples), buffers, inputs)

    def placed(self, outputs: Tensor, buffers: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> Tensor:
        """One edge's outputs [B] counted from where the module's are, if the model is centred."""
        if not self.centred:
            return outputs
        start, unit = self.loss.centre(buffers[LABELS])
        placed = start + unit * outputs
        return placed if self.last is None else self._last(buffers, inputs) + placed

    def changes(self, buffers: Mapping[str, Tensor], inputs: Sequence[Tensor], labels: Tensor) -> Tensor:
        """Labels [k, B] of k edges less the last values; the labels themselves, if the model has none."""
        known = self.loss.inverse(labels)
        return known if self.last is None else known - self._last(buffers, inputs)

    def _last(self, buffers: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> Tensor:
        assert self.last is not None
        values = self.loss.inverse(inputs[self.last][..., 0])
        return torch.where(values.isnan(), buffers[LEVEL], values)


class _Caller(nn.Module):
    """Calls a module and tells its buffers after the call, whether written into or set anew."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        outputs = self.module(*inputs)
        return outputs, dict(self.module.named_buffers())


def _shaped(values: Tensor, shape: Sequence[int]) -> Tensor:
    return values.view(*values.shape[:-1], *shape)


def _single_dtype(parameters: Mapping[str, nn.Parameter]) -> torch.dtype:
    dtypes = {p.dtype for p in parameters.values()}
    if len(dtypes) > 1 or not next(iter(dtypes)).is_floating_point:
        raise InvalidValue("module", sorted(map(str, dtypes)), "trainable parameters of one floating-point type")
    return dtypes.pop()


def _table_layout(
    table: IdTable,
    parameters: Mapping[str, nn.Parameter],
    fields: Sequence[str],
    module: nn.Module,
    tallies: Sequence[str],
) -> TableLayout:
    name = "/".join(table.fields)
    if not table.fields or not table.parameters:
        raise InvalidValue("tables", table, "an id table with at least one field and one parameter")
    for field in table.fields:
        check_choice(f"tables[{name}].fields", field, fields)
    columns, width = [], 0
    for parameter in table.parameters:
        check_choice(f"tables[{name}].parameters", parameter, parameters)
        shape = parameters[parameter].shape
        if len(shape) < 2:
            raise InvalidValue(f"tables[{name}].{parameter}", tuple(shape), "a parameter with rows: [ids, width]")
        columns.append(_Slice(parameter, width, width + prod(shape[1:]), shape))
        width += prod(shape[1:])
        owner = module.get_submodule(parameter.rpartition(".")[0])
        if getattr(owner, "padding_idx", None) is not None:
            raise ModelError(
                f"tables[{name}].{parameter}: an id table can't have padding_idx, since its rows are renumbered for "
                "each batch; leave padding_idx out, or leave this parameter undeclared (then it is mixed whole)"
            )
    rows = {column.shape[0] for column in columns}
    if len(rows) > 1:
        raise InvalidValue(f"tables[{name}].parameters", sorted(rows), "the same number of rows in each parameter")
    tallied = any(field in tallies for field in table.fields)
    return TableLayout(name, tuple(fields.index(f) for f in table.fields), tuple(columns), rows.pop(), width, tallied)


def _ridge(part: str, dense: Sequence[_Slice], module: nn.Module, centred: bool) -> Ridge:
    weights = {s.name: s for s in dense if len(s.shape) == 1}
    check_choice("ridge", f"{part}.weight", weights)
    check_choice("ridge", f"{part}.gram", dict(module.named_buffers()))
    if not centred:
        raise InvalidValue("centre", False, "True for a model with a ridge, which is solved in the unit of the labels")
    found = weights[f"{part}.weight"]
    return Ridge(found.start, found.stop, f"{part}.gram")


def _tallied_field(name: str, fields: Sequence[str], tables: Sequence[TableLayout]) -> tuple[int, int]:
    """The position of an id field whose tallies are wanted, and its table."""
    of = {fields[position]: (position, t) for t, table in enumerate(tables) for position in table.fields}
    check_choice("tallies", name, of)
    return of[name]
