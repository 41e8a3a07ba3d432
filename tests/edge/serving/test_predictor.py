"""The server predicts what the learner would, from parameters that were handed over."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from alphaedge import InvalidValue, Model
from alphaedge.core.fields import Field
from alphaedge.core.gradients import OneAtATime
from alphaedge.edge.config import FieldConfig
from alphaedge.edge.inputs.features import Features
from alphaedge.edge.inputs.lookup import RowLookup
from alphaedge.edge.inputs.numbering import key_of
from alphaedge.edge.learning.handover import hand_over
from alphaedge.edge.learning.id_tables import outputs_of
from alphaedge.edge.serving.bound_module import BoundModule, parameter_views
from alphaedge.edge.serving.predictor import Predictor
from alphaedge.edge.serving.traced_prediction import TracedPrediction
from alphaedge.edge.store.parameters import ParameterReader, ParameterWriter
from alphaedge.models.deepfm import deepfm

from ...core.zoo import ZOO, Case, Recurrent, numbers, run_of
from ..learning.test_learner import shop_fleet


@pytest.mark.parametrize("capacity", [None, 8])
def test_the_server_predicts_what_the_learner_would(tmp_path: Path, capacity: int | None) -> None:
    """At every batch of a fleet's life: new ids, mixes, and ids that give way."""
    fleet = shop_fleet(capacity)
    writers = {name: ParameterWriter(tmp_path / name, "s") for name in fleet.names}
    for name in fleet.names:
        hand_over(fleet.edges[name], writers[name])
    model = fleet.learner("0").model
    example = fleet.examples(0, 0).inputs
    servers = {name: Predictor(model, ParameterReader(tmp_path / name, "s"), example) for name in fleet.names}
    versions = dict.fromkeys(fleet.names, 0)

    def compare(edge: int, number: int) -> None:
        name = str(edge)
        hand_over(fleet.edges[name], writers[name])
        inputs = fleet.examples(edge, number).inputs
        found, alone, version = servers[name].predict(inputs)
        assert version > versions[name]
        versions[name] = version
        learner = fleet.edges[name]
        assert torch.equal(found, model.loss.link(learner.predict(inputs)))
        assert learner.home is not None
        assert alone is not None
        assert torch.equal(
            alone, model.loss.link(outputs_of(learner.home, learner.tables, inputs, learner.gradients)[0])
        )

    fleet.live(compare)


@pytest.mark.parametrize("kind", ZOO)
def test_a_bound_module_gives_what_a_called_one_gives(kind: str) -> None:
    model = ZOO[kind].model()
    run = run_of(ZOO[kind], model, edges=2)
    dense, rows, buffers, inputs = run.without_labels()
    expected = OneAtATime(model).outputs(dense, rows, buffers, inputs)
    bound = BoundModule(model)
    for edge in (0, 1, 0):
        state = {name: b[edge] for name, b in buffers.items()}
        given_ = (parameter_views(model, dense[edge]), [r[edge] for r in rows], state, [x[edge] for x in inputs])
        with torch.no_grad():
            found = bound.outputs(*given_)
        torch.testing.assert_close(found, expected[edge], rtol=1e-10, atol=1e-10)
        assert all(torch.equal(state[name], buffers[name][edge]) for name in state), "it writes nowhere"


class Keeps(nn.Module):
    """A module that has kept a parameter elsewhere, too."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 1)
        self.kept = [self.layer.weight]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.kept[0], self.layer.bias)


def test_a_module_that_keeps_its_parameters_elsewhere_shows_it() -> None:
    """And so the server finds out, and calls it the plain way."""
    model = Model(Keeps(), fields=["x"])
    bound = BoundModule(model)
    with torch.no_grad():
        assert bound.outputs(parameter_views(model, model.initial_dense()), [], {}, [torch.ones(2, 3)]).isnan().all()


class Branches(nn.Module):
    """A module that does one thing or another, by what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) if x.sum() > 0 else -2 * self.layer(x)


class Counts(nn.Module):
    """A module that writes the number of examples down when it is traced."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).view(int(x.shape[0]))


def called(model: Model, dense: torch.Tensor, inputs: list[torch.Tensor]) -> torch.Tensor:
    """Predictions in the plain way."""
    return model.loss.link(OneAtATime(model).outputs(dense[None], [], {}, [x[None] for x in inputs])[0])


@pytest.mark.parametrize(("kind", "path"), [(Branches, "bound"), (Counts, "bound"), (Keeps, "plain")])
def test_a_module_that_cannot_be_traced_is_called(kind: type[nn.Module], path: str) -> None:
    model = Model(kind(), fields=["x"])
    traced = TracedPrediction(model, ["mixed"], new_ids=False, sample=[torch.ones(3, 3)])
    assert traced.path == path
    dense = torch.randn(model.dense_size)
    state = traced.state({"share": torch.ones(1), "mixed.dense": dense})
    for size, sign in ((4, 1.0), (1, -1.0), (6, 1.0), (5, -1.0)):
        inputs = [sign * torch.rand(size, 3)]
        torch.testing.assert_close(traced(state, [], inputs), called(model, dense, inputs)[None])


@pytest.mark.parametrize("new_ids", [False, True])
def test_a_pair_of_deepfms_is_traced_and_gives_what_the_modules_give(new_ids: bool) -> None:
    """With two models, unknown ids or none, any number of examples, and parameters that change from call to call."""
    fields = [Field("user", "id", 20), Field("colour", "code", 3), Field("price", "number", 2)]
    model = deepfm(fields, normalise=True)
    sample = [torch.tensor([1, 2, 3]), torch.tensor([0, 1, 2]), torch.randn(3, 2)]
    traced = TracedPrediction(model, ["mixed", "home"], new_ids=new_ids, sample=sample)
    assert traced.path == "traced"
    for size in (1, 2, 31, 5):
        tensors = {"share": torch.tensor([0.25])}
        for who in ("mixed", "home"):
            table = torch.rand(12, model.tables[0].columns)
            tensors |= {f"{who}.dense": torch.randn(model.dense_size), f"{who}.0": table}
            tensors |= {f"{who}.buffer.{n}": torch.rand_like(b) + 0.5 for n, b in model.initial_buffers().items()}
        rows, start = torch.randint(12, (size,)), torch.rand(size, model.tables[0].columns)
        known = torch.rand(size) < 0.5 if new_ids else torch.ones(size, dtype=torch.bool)
        lookup = RowLookup(rows, known, start) if new_ids else RowLookup(rows, None, None)
        inputs = [torch.arange(size), torch.randint(3, (size,)), torch.randn(size, 2)]
        found = traced(traced.state(tensors), [lookup], inputs)
        outputs = []
        for who in ("mixed", "home"):
            values = torch.where(known[:, None], tensors[f"{who}.0"][rows], start)
            buffers = {n: tensors[f"{who}.buffer.{n}"][None] for n in model.initial_buffers()}
            dense = tensors[f"{who}.dense"][None]
            outputs.append(OneAtATime(model).outputs(dense, [values[None]], buffers, [x[None] for x in inputs])[0])
        blended = 0.25 * outputs[0] + 0.75 * outputs[1]
        torch.testing.assert_close(found, torch.sigmoid(torch.stack([blended, outputs[1]])))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent_modules_can_be_bound(kind: Callable[..., nn.Module]) -> None:
    case = Case(lambda: Recurrent(kind), numbers(2, 3))
    model = case.model()
    dense, rows, buffers, inputs = run_of(case, model, edges=1).without_labels()
    bound = BoundModule(model)
    with torch.no_grad():
        found = bound.outputs(parameter_views(model, dense[0]), [], {}, [x[0] for x in inputs])
    torch.testing.assert_close(found, OneAtATime(model).outputs(dense, rows, buffers, inputs)[0])


FIELDS = (
    FieldConfig(name="user", kind="id", size=10),
    FieldConfig(name="colour", kind="code", size=3),
    FieldConfig(name="kinds", kind="set", size=2),
    FieldConfig(name="price", kind="number"),
)
GOOD = {
    "user": np.array([b"ann", b"bob"], dtype=object),
    "colour": np.array([0, 2]),
    "kinds": np.array([[0.0, 1.0], [1.0, 1.0]]),
    "price": np.array([[1.5], [2.0]], dtype=np.float32),
}


def test_examples_come_back_from_the_journal_as_they_went_in() -> None:
    features = Features(FIELDS, b"secret")
    packed = features.encode(GOOD)
    again = features.from_bytes(features.to_bytes(packed))
    assert (again == packed).all()
    user, price, kinds, colour = features.to_tensors(again, ["user", "price", "kinds", "colour"])
    assert user.tolist() == [key_of("ann", b"secret"), key_of("bob", b"secret")]
    assert price.tolist() == [[1.5], [2.0]]
    assert kinds.tolist() == [[0.0, 1.0], [1.0, 1.0]]
    assert colour.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"user": None}, ["inputs", "also user"]),
        ({"user": None, "price": None, "kinds": None}, ["inputs", "['colour']", "also user, "]),
        ({"user": None, "price": None, "a": np.zeros(2), "b": np.zeros(2)}, ["'a, b'", "one of user, colour"]),
        ({"other": np.zeros(2)}, ["inputs", "'other'", "user, colour"]),
        ({"user": np.array([1.0, 2.5])}, ["inputs.user", "2.5", "text or a whole number"]),
        ({"colour": np.array([0, 3])}, ["inputs.colour", "3", "from 0 to 2"]),
        ({"colour": np.array([-1, 0])}, ["inputs.colour", "-1"]),
        ({"colour": np.array([0.0, 1.0])}, ["inputs.colour.datatype"]),
        ({"kinds": np.zeros((2, 3))}, ["inputs.kinds.shape", "[2, 3]", "[2, 2]"]),
        ({"price": np.array([np.nan, 1.0])}, ["inputs.price", "nan", "finite"]),
        ({"price": np.array([1e300, 1.0])}, ["inputs.price", "1e+300", "finite"]),
        ({"price": np.array([1e20, 1.0])}, ["inputs.price", "1e+20", "at most 1e+09"]),
        ({"price": np.array([b"1", b"2"], dtype=object)}, ["inputs.price.datatype"]),
        ({"price": np.zeros(3)}, ["inputs.price.shape", "3", "2 examples, as user has"]),
        ({name: array[:0] for name, array in GOOD.items()}, ["no example"]),
    ],
)
def test_inputs_that_are_not_as_declared_are_named(changes: dict[str, np.ndarray | None], words: list[str]) -> None:
    given_ = {name: array for name, array in (GOOD | changes).items() if array is not None}
    with pytest.raises(InvalidValue) as caught:
        Features(FIELDS, b"").encode(given_)
    for word in words:
        assert word in str(caught.value)


def test_the_values_of_a_large_request_are_checked_before_its_ids_become_keys() -> None:
    many = {name: np.concatenate([array] * 1000) for name, array in GOOD.items()}
    many["colour"][-1], many["user"][0] = 3, object()  # no key can be made of it
    with pytest.raises(InvalidValue, match=r"inputs\.colour: found 3"):
        Features(FIELDS, b"").encode(many)


def test_features_of_another_schema_are_refused() -> None:
    packed = Features(FIELDS, b"").to_bytes(Features(FIELDS, b"").encode(GOOD))
    with pytest.raises(InvalidValue, match="fields have changed"):
        Features(FIELDS[:2], b"").from_bytes(packed)


@given(st.lists(st.integers(-(2**63), 2**64 - 1), min_size=1))
def test_any_whole_number_is_an_id(ids: list[int]) -> None:
    given_ = np.array(ids, dtype=object if max(ids) >= 2**63 and min(ids) < 0 else None)
    if given_.dtype == object:
        return
    field = (FieldConfig(name="user", kind="id", size=10),)
    packed = Features(field, b"s").encode({"user": given_})
    assert packed["user"].tolist() == [key_of(i, b"s") for i in ids]
