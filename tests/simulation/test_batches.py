"""Streams are cut into batches; a run's labels are the data's, flipped where the world says so."""

import pytest
import torch

from alphaedge import Conditions, Field, IdTable, InvalidValue, Model
from alphaedge.simulation.batches import Batches, Inputs, Labels, batch_times

from .fleets import Factors, factors, linear, linear_bce, measured, shop_data, shortened

SIZE = 5


def test_what_is_left_of_a_stream_stays_out() -> None:
    cut = Inputs.cut(shortened(measured(2, [4, 7], SIZE), 7 * SIZE - 2), linear(), SIZE)
    assert cut.count == [4, 6]
    assert cut.start == [0, 4]
    assert cut.inputs[0].shape == (10, SIZE, 2)


def test_a_batch_happens_when_its_last_event_does() -> None:
    data = measured(2, [3, 2], SIZE)
    for times, stream in zip(batch_times(data, SIZE), data.streams, strict=True):
        assert torch.equal(times, stream.times[SIZE - 1 :: SIZE])


def test_places_and_rows_give_the_ids_back() -> None:
    data = shop_data()
    model = factors(30, 20)
    cut = Inputs.cut(data, model, SIZE)
    for table, (field, rows, own) in enumerate(zip(["user", "item"], cut.rows, cut.own_rows, strict=True)):
        ids = torch.cat([s.inputs[field][: c * SIZE] for s, c in zip(data.streams, cut.count, strict=True)])
        edge = torch.arange(len(data.streams)).repeat_interleave(torch.tensor(cut.count))
        found = own.named[edge].gather(1, rows)
        assert torch.equal(found.gather(1, cut.inputs[table]), ids.view(-1, SIZE))


def test_a_batch_larger_than_a_stream_is_refused() -> None:
    with pytest.raises(InvalidValue) as caught:
        Inputs.cut(measured(3, [9, 2, 9], SIZE), linear(), 11)
    assert (caught.value.field, caught.value.found) == ("edge 1: events", 10)
    assert caught.value.allowed.startswith("at least one batch of 11")


def test_a_model_that_wants_a_field_the_data_lacks_is_refused() -> None:
    model = Model(torch.nn.Linear(2, 1), fields=["weather"], loss="mse")
    with pytest.raises(InvalidValue) as caught:
        Inputs.cut(measured(), model, SIZE)
    assert (caught.value.found, caught.value.allowed) == ("weather", "one of x")


def test_an_id_table_with_too_few_rows_is_refused() -> None:
    with pytest.raises(InvalidValue) as caught:
        Inputs.cut(shop_data(), factors(30, 19), SIZE)
    assert (caught.value.field, caught.value.found) == ("rows of id table item", 19)
    assert "20" in caught.value.allowed


def test_an_id_table_with_more_rows_than_ids_is_fine() -> None:
    model = Model(
        Factors(40, 25),
        fields=["user", "item", "numbers"],
        tables=[IdTable(("user",), ("user.weight",)), IdTable(("item",), ("item.weight",))],
    )
    assert Inputs.cut(shop_data(), model, SIZE).rows[1].max() <= 25


def test_numbers_take_the_models_type() -> None:
    model = Model(torch.nn.Linear(2, 1).double(), fields=["x"], loss="mse")
    assert Inputs.cut(measured(), model, SIZE).inputs[0].dtype == torch.float64


def labels(conditions: Conditions, *, task: str = "classify", seed: int = 0, edges: int = 4) -> Labels:
    data = measured(edges, 40, SIZE, task=task)
    return Labels.draw(data, SIZE, conditions, seed, torch.float32)


@pytest.mark.parametrize("task", ["classify", "regress"])
def test_without_conditions_edges_are_taught_and_scored_on_the_datas_labels(task: str) -> None:
    found = labels(Conditions(), task=task)
    expected = torch.cat([s.labels for s in measured(4, 40, SIZE, task=task).streams]).view(-1, SIZE)
    assert torch.equal(found.scored, expected)
    assert torch.equal(found.taught, expected)


def test_an_adversary_is_taught_flipped_classes_and_scored_on_the_true_ones() -> None:
    conditions = Conditions(adversaries=0.5)
    found, hostile = labels(conditions), conditions.draw_adversaries(4, 0)
    assert torch.equal(found.scored, labels(Conditions()).scored)
    for edge in range(4):
        scored, taught = found.scored[edge * 40 : edge * 40 + 40], found.taught[edge * 40 : edge * 40 + 40]
        assert torch.equal(taught, 1 - scored if edge in hostile else scored)


def test_an_adversarys_numbers_are_mirrored_in_the_range_of_the_whole_data_set() -> None:
    data = measured(4, 40, SIZE)
    conditions = Conditions(adversaries=0.5)
    found = labels(conditions, task="regress")
    low = min(float(s.labels.min()) for s in data.streams)
    high = max(float(s.labels.max()) for s in data.streams)
    for edge in conditions.draw_adversaries(4, 0):
        mine = data.streams[edge].labels.view(-1, SIZE)
        assert torch.allclose(found.taught[edge * 40 : edge * 40 + 40], high + low - mine, atol=1e-6)


def test_label_noise_is_scored_as_noise() -> None:
    found, true = labels(Conditions(label_noise=0.4, noisy_edges=(1, 3))), labels(Conditions()).scored
    assert torch.equal(found.scored, found.taught)
    for edge in range(4):
        part = slice(edge * 40, edge * 40 + 40)
        flipped = float((found.scored[part] != true[part]).float().mean())
        assert flipped == pytest.approx(0.4 if edge in (1, 3) else 0.0, abs=0.12 if edge in (1, 3) else 0.0)


def test_a_noisy_adversary_is_taught_the_opposite_of_its_noise() -> None:
    found = labels(Conditions(label_noise=0.4, noisy_edges=(0, 1, 2, 3), adversaries=1.0))
    assert torch.equal(found.taught, 1 - found.scored)


def test_another_seed_flips_other_labels() -> None:
    conditions = Conditions(label_noise=0.4)
    assert not torch.equal(labels(conditions, seed=0).scored, labels(conditions, seed=1).scored)


def test_a_batch_is_found_by_edge_and_number() -> None:
    data = measured(3, [4, 6, 5], SIZE, task="classify")
    cut = Inputs.cut(data, linear_bce(), SIZE)
    drawn = Labels.draw(data, SIZE, Conditions(adversaries=1.0), 0, torch.float32)
    found = Batches([cut], [drawn]).get(torch.tensor([2, 0, 1]), torch.tensor([4, 0, 2]))
    for k, (edge, number) in enumerate([(2, 4), (0, 0), (1, 2)]):
        part = slice(number * SIZE, number * SIZE + SIZE)
        assert torch.equal(found.inputs[0][k], data.streams[edge].inputs["x"][part])
        assert torch.equal(found.labels[k], 1 - data.streams[edge].labels[part])


def test_stacked_runs_on_one_data_set_share_its_inputs_but_not_their_labels() -> None:
    data = measured(2, 4, SIZE, task="classify")
    cut = Inputs.cut(data, linear_bce(), SIZE)
    runs = [Labels.draw(data, SIZE, Conditions(adversaries=a), 0, torch.float32) for a in (0.0, 1.0)]
    both = Batches([cut, cut], runs)
    assert both.count == [4] * 4
    plain, flipped = both.get(torch.tensor([1]), torch.tensor([3])), both.get(torch.tensor([3]), torch.tensor([3]))
    assert torch.equal(plain.inputs[0], flipped.inputs[0])
    assert torch.equal(plain.labels, 1 - flipped.labels)
    assert torch.equal(both.scored[both.at_label[1] + 3], both.scored[both.at_label[3] + 3])


def test_stacked_runs_on_two_data_sets_have_their_own_inputs() -> None:
    data = [measured(2, 4, SIZE, seed=s) for s in (0, 1)]
    cuts = [Inputs.cut(d, linear(), SIZE) for d in data]
    runs = [Labels.draw(d, SIZE, Conditions(), 0, torch.float32) for d in data]
    both = Batches(cuts, runs)
    found = both.get(torch.tensor([0, 2]), torch.tensor([1, 1]))
    for k in range(2):
        assert torch.equal(found.inputs[0][k], data[k].streams[0].inputs["x"][SIZE : 2 * SIZE])
        assert torch.equal(found.labels[k], data[k].streams[0].labels[SIZE : 2 * SIZE])


def test_rows_of_batches_are_those_of_their_ids() -> None:
    data = shop_data()
    model = factors(30, 20)
    cut = Inputs.cut(data, model, SIZE)
    batches = Batches([cut], [Labels.draw(data, SIZE, Conditions(), 0, torch.float32)])
    users, items = batches.rows(torch.tensor([1]), torch.tensor([2]))
    ids = data.streams[1].inputs["item"][2 * SIZE : 3 * SIZE]
    assert set(batches.own_rows[1].named[1, items[0]].tolist()) - {20} == set(ids.tolist())
    assert users.shape == items.shape == (1, SIZE)


def test_a_field_of_the_data_that_the_model_does_not_take_does_no_harm() -> None:
    data = shop_data()
    assert Field("category", "code", 4) in data.fields
    assert len(Inputs.cut(data, factors(30, 20), SIZE).inputs) == 3
