"""Tallies count what was learned from, and tell a model what was known before."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from alphaedge.core import tally
from alphaedge.core.gradients import Gradients, OneAtATime, Stacked
from alphaedge.core.labels import LARGEST, standardise
from alphaedge.core.model import IdTable, Model
from alphaedge.core.model_check import as_batch
from alphaedge.core.online import Online, learn, predict
from alphaedge.core.rules.optimizer.adagrad import Adagrad
from alphaedge.core.rules.optimizer.adam import Adam
from alphaedge.core.state import ModelState
from alphaedge.errors import InvalidValue

_seed = st.integers(0, 999)


class Told(nn.Module):
    """Sees what it is told of its item, and a row."""

    def __init__(self) -> None:
        super().__init__()
        self.item = nn.Embedding(6, 2)
        self.rest = nn.Linear(2 + tally.TOLD, 1)

    def forward(self, item: Tensor, known: Tensor) -> Tensor:
        out: Tensor = self.rest(torch.cat([self.item(item), known], dim=-1))
        return out.squeeze(-1)


def told(loss: str = "mse") -> Model:
    torch.manual_seed(0)
    tables = [IdTable(("item",), ("item.weight",))]
    return Model(Told().double(), fields=["item"], tables=tables, tallies=["item"], loss=loss)


def tallies(state: ModelState) -> Tensor:
    """The own tallies of the first edge, [rows, 2]."""
    return state.tables[0].value[0, :-1, state.tables[0].width :][:, : tally.COLUMNS]


@given(_seed, st.integers(1, 4))
def test_labels_are_standardised_by_all_labels_so_far(seed: int, batches: int) -> None:
    labels = torch.randn(batches, 1, 7, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 5 + 3
    statistics = torch.zeros(1, 3, dtype=torch.float64)
    for batch in labels:
        found, statistics = standardise(statistics, batch)
    seen = labels.flatten().numpy()
    expected = np.clip((labels[-1, 0].numpy() - seen.mean()) / seen.std(), -LARGEST, LARGEST)
    np.testing.assert_allclose(found[0], expected, atol=1e-9)
    np.testing.assert_allclose(statistics[0], [seen.size, seen.mean(), seen.var()], atol=1e-9)


def test_labels_that_do_not_vary_have_no_tendency() -> None:
    found, _ = standardise(torch.zeros(2, 3), torch.ones(2, 5))
    assert torch.equal(found, torch.zeros(2, 5))


def counted(places: list[Tensor], labels: Tensor) -> Tensor:
    tallies = labels.new_zeros(8, tally.COLUMNS)
    tally.count(tallies, places, labels)
    return tallies


@given(_seed)
def test_a_batch_is_counted_example_by_example_in_every_field(seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    places = [torch.randint(8, (2, 9), generator=g) for _ in range(2)]
    labels = torch.randn(2, 9, generator=g)
    found = counted(places, labels)
    for row in range(8):
        here = torch.cat([labels[place == row] for place in places])
        assert float(found[row, 0]) == len(here)
        assert float(found[row, 1]) == pytest.approx(float(here.sum()), abs=1e-5)


@given(_seed, st.integers(1, 5))
def test_tallies_of_parts_add_up_to_the_tally_of_the_whole(seed: int, parts: int) -> None:
    g = torch.Generator().manual_seed(seed)
    places, labels = torch.randint(4, (1, 20), generator=g), torch.randn(1, 20, generator=g).double()
    whole = counted([places], labels)
    pieces = zip(places.tensor_split(parts, dim=1), labels.tensor_split(parts, dim=1), strict=True)
    torch.testing.assert_close(sum(counted([p], y) for p, y in pieces), whole)


@pytest.mark.parametrize("rows", [Adagrad(0.1), Adam(0.01), Adam(0.01, lazy_rows=False)])
def test_learning_counts_its_batch_and_moves_parameters_as_without_tallies(rows: Adam | Adagrad) -> None:
    """Whatever the optimizer, the tallies are what a person would count, and rows move by their gradients alone."""
    model = told()
    online = Online(Adam(0.01), row_optimizer=rows)
    state, gradients = ModelState.start([model], [0]), OneAtATime(model)
    counts: dict[int, int] = {}
    g = torch.Generator().manual_seed(1)
    for _ in range(5):
        items = torch.randint(6, (8,), generator=g)
        learn(state, as_batch(model, [items], torch.randn(8, generator=g)), gradients, online)
        for item in items.tolist():
            counts[item] = counts.get(item, 0) + 1
    assert tallies(state)[:, 0].tolist() == [counts.get(item, 0) for item in range(6)]
    table = state.tables[0]
    assert not table.storage[1:, :, :, table.width :].any(), "tallies have no moments"
    assert not table.value[0, :-1, table.width + tally.COLUMNS :].any(), "nothing was heard"


@pytest.mark.parametrize("stacked", [False, True])
def test_a_model_is_told_what_was_known_before_the_batch(stacked: bool) -> None:
    model = told()
    gradients: Gradients = Stacked(model, trace=False) if stacked else OneAtATime(model)
    state = ModelState.start([model], [0])
    batch = as_batch(model, [torch.tensor([3, 3, 1])], torch.tensor([1.0, 1.0, -2.0]))
    known = torch.zeros(3, tally.TOLD, dtype=torch.float64)

    def expected() -> Tensor:
        dense = dict(zip(("weight", "bias"), model.unpack(state.dense[0], [state.tables[0].value[0]]), strict=False))
        rows = state.tables[0].value[0, [3, 3, 1], :2]
        return (torch.cat([rows, known], dim=1) @ dense["weight"].T + dense["bias"]).squeeze(1)

    torch.testing.assert_close(predict(state, batch, gradients)[0], expected())
    learn(state, batch, gradients, Online(Adam(0.01)))
    assert float(tallies(state)[3, 0]) == 2
    z, _ = standardise(torch.zeros(1, 3, dtype=torch.float64), batch.labels)
    own = torch.tensor([[2, float(z[0, 0] + z[0, 1])], [2, float(z[0, 0] + z[0, 1])], [1, float(z[0, 2])]]).double()
    known = torch.stack([tally.rate(own), tally.rate(own), torch.log1p(own[:, 0]) / 4], dim=1)
    torch.testing.assert_close(predict(state, batch, gradients)[0], expected())


def test_an_id_that_nobody_has_counted_tells_nothing() -> None:
    assert not tally.tell(torch.randn(4, 7 + 4) * torch.cat([torch.ones(7), torch.zeros(4)]), 7).any()


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), min_size=2, max_size=2))
def test_claims_are_cut_to_what_can_be_true(claim: list[float]) -> None:
    events, total = tally.possible(torch.tensor(claim)).tolist()
    assert events >= 0
    assert abs(total) <= tally.LARGEST * events * (1 + 1e-6)


@given(st.floats(0, 1e4), st.floats(-10, 10))
def test_a_claim_that_can_be_true_stays(events: float, mean: float) -> None:
    claim = torch.tensor([events, events * mean], dtype=torch.float64)
    torch.testing.assert_close(tally.possible(claim), claim)


def test_tallies_of_what_is_no_id_field_are_refused() -> None:
    with pytest.raises(InvalidValue) as caught:
        Model(Told(), fields=["item"], tables=[IdTable(("item",), ("item.weight",))], tallies=["price"])
    assert (caught.value.field, caught.value.found) == ("tallies", "price")
