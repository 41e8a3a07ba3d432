"""A private step is Opacus', nobody moves it by more than the clips allow, and rows tell nothing but noisy tallies."""

import copy
from collections.abc import Iterator, Sequence
from functools import partial
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from opacus import GradSampleModule
from opacus.optimizers import DPOptimizer
from torch import Tensor

from alphaedge.core.batch import Batch, compact
from alphaedge.core.fields import Field
from alphaedge.core.model import Model
from alphaedge.core.privacy.accountant import NOISE_DELTA, mu_of
from alphaedge.core.privacy.clipping import clip_weights, lengths, weighted_sum
from alphaedge.core.privacy.lot import Lot, users_of
from alphaedge.core.privacy.mechanism import GRADIENT_PART, Mechanism
from alphaedge.core.privacy.per_example import PerExampleGradients
from alphaedge.core.privacy.release import PrivateLearning, Released
from alphaedge.core.privacy.settings import Privacy
from alphaedge.core.privacy.statistics import MEMORY, find_scales, move_statistics, start_statistics
from alphaedge.core.privacy.tallies import add_tallies
from alphaedge.core.state import ModelState
from alphaedge.core.tally import COLUMNS
from alphaedge.errors import InvalidValue
from alphaedge.models.deepfm import deepfm
from alphaedge.models.mlp import mlp

FIELDS = (Field("user", "id", 6), Field("item", "id", 30), Field("x", "number", 2))
ITEMS = 1  # the number of the table of items
LOT = 40


def silence(edges: Sequence[int], *shape: int) -> Tensor:
    """No noise at all."""
    return torch.zeros(len(edges), *shape)


def next_part(parts: Iterator[Tensor], std: float, reference: Tensor, **_: object) -> Tensor:
    """What Opacus calls for noise, parameter by parameter."""
    return std * next(parts)


class Loud:
    """Noise from one generator."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, edges: Sequence[int], *shape: int) -> Tensor:
        return torch.randn(len(edges), *shape, generator=self.generator, dtype=torch.float64)


def shop(privacy: Privacy) -> PrivateLearning:
    torch.manual_seed(0)
    return learning(deepfm(FIELDS, dim=3, hidden=(5,), normalise=True), privacy)


def learning(model: Model, privacy: Privacy) -> PrivateLearning:
    gradients = PerExampleGradients(model)
    return PrivateLearning(gradients, Mechanism.of(privacy, model, gradients.statistics, LOT), privacy.rate)


def events(model: Model, seed: int, edges: int = 1, items: int = 30) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    users = torch.randint(6, (edges, LOT), generator=generator)
    item = torch.randint(items, (edges, LOT), generator=generator)
    raw = [users, item, 3 + 5 * torch.randn(edges, LOT, 2, generator=generator)]
    inputs, rows = compact(raw, model.tables)
    return Batch(tuple(inputs), tuple(rows), torch.randint(2, (edges, LOT), generator=generator).float())


def lot_of(model: Model, batch: Batch, without: int | None = None) -> Lot:
    users = users_of(batch, model, "user")
    return Lot.of_users(batch, users, torch.ones_like(users, dtype=torch.bool) if without is None else users != without)


def test_one_private_step_is_that_of_opacus_on_the_same_gradients_and_noise() -> None:
    torch.manual_seed(3)
    model = mlp((Field("x", "number", 4),), hidden=(6, 5), loss="mse")
    privacy = Privacy(epsilon=3.0, clip=0.7, rate=0.05)
    private = learning(model, privacy)
    released = private.start(ModelState.start([model], [0]))
    module = GradSampleModule(copy.deepcopy(model.module), loss_reduction="mean")
    sigma = private.mechanism.gradient_noise / privacy.clip
    optimizer = DPOptimizer(
        torch.optim.Adam(module.parameters(), lr=privacy.rate),
        noise_multiplier=sigma,
        max_grad_norm=privacy.clip,
        expected_batch_size=LOT,
    )
    for step in range(3):
        inputs, labels = torch.randn(1, LOT, 4), 5 * torch.randn(1, LOT)
        batch = Batch((inputs,), (), labels)
        private.step(released, torch.tensor([0]), Lot.of_events(batch), Loud(step))
        drawn = Loud(step)([0], model.dense_size)[0].float()
        noise = partial(next_part, iter(model.unpack_dense(drawn)))
        with mock.patch("opacus.optimizers.optimizer._generate_noise", noise):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(module(inputs[0]), labels[0]).backward()
            optimizer.step()
        theirs = torch.cat([p.detach().flatten() for p in module.parameters()])
        torch.testing.assert_close(released.models.dense[0], theirs, rtol=1e-4, atol=1e-5)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), user=st.integers(0, 5), scale=st.sampled_from([0.01, 1.0, 1e4]))
def test_no_user_adds_more_than_the_clips_to_any_sum(seed: int, user: int, scale: float) -> None:
    private = shop(Privacy(user="user", tables=("item",)))
    model, mechanism = private.gradients.model, private.mechanism
    batch = events(model, seed)
    batch = Batch((*batch.inputs[:2], scale * batch.inputs[2]), batch.rows, batch.labels)
    released = private.start(ModelState.start([model], [0]))
    sums, tallies, moves, bins = [], [], [], []
    for without in (None, user):
        lot = lot_of(model, batch, without)
        found = private.gradients(released.models, batch).finite()
        sums.append(weighted_sum(found, clip_weights(found, lengths(found), lot, mechanism.clip), model.dense_size))
        counts = [torch.zeros_like(x) for x in released.counts]
        there = [torch.zeros_like(x) for x in released.there]
        labels = 2 * batch.labels - 1
        add_tallies(
            counts, there, lot, labels, lot.rows(model, mechanism.tables), torch.tensor([1]), mechanism, silence
        )
        tallies.append(counts[0][..., :COLUMNS])
        models = released.models.copy()
        numbers = (*found.numbers, labels.unsqueeze(2))
        move_statistics(models, private.gradients.norms, numbers, lot, mechanism, silence)
        moved = [
            models.buffers[f"norm.{name}"] - released.models.buffers[f"norm.{name}"] for name in ("mean", "variance")
        ]
        moves.append(torch.cat(moved) * MEMORY * LOT)
        with mock.patch(
            "alphaedge.core.privacy.statistics.with_noise", lambda sums, *_: bins.append(sums.clone()) or sums
        ):
            find_scales(released.models.copy(), private.gradients.norms, numbers, lot, mechanism, silence)
    tolerance = 1 + 1e-4
    assert (sums[0] - sums[1]).norm() <= mechanism.clip * tolerance
    assert (tallies[0] - tallies[1]).norm() <= mechanism.tally_clip * tolerance
    assert (moves[0] - moves[1]).norm() <= mechanism.statistics_clip * tolerance
    sigma = (
        mechanism.gradient_noise / mechanism.clip * GRADIENT_PART**0.5
    )  # of the whole mechanism, all of it for the bins
    assert (bins[0] - bins[1]).norm() * sigma <= mechanism.scale_noise * tolerance


def test_the_parts_together_are_one_mechanism_of_the_promised_noise() -> None:
    privacy = Privacy(user="user", tables=("item",), participations=3)
    found = shop(privacy).mechanism
    parts = (
        (found.clip, found.gradient_noise, 3**0.5),
        (found.statistics_clip, found.statistics_noise, 3**0.5),
        (found.tally_clip, found.tally_noise, 3),  # all at once, where noise goes over several steps
    )
    mu = sum((often * clip / noise) ** 2 for clip, noise, often in parts) ** 0.5
    assert mu == pytest.approx(mu_of(privacy.epsilon, NOISE_DELTA * privacy.delta))


def train(private: PrivateLearning, seed: int, steps: int, items: int = 30) -> Released:
    model = private.gradients.model
    released, noise = private.start(ModelState.start([model], [0])), Loud(seed)
    for step in range(steps):
        private.step(released, torch.tensor([0]), lot_of(model, events(model, step, items=items)), noise)
    return released


def test_parameters_of_rows_stay_at_their_public_start() -> None:
    private = shop(Privacy(user="user", tables=("item",), tally_batches=1))
    first = private.start(ModelState.start([private.gradients.model], [0]))
    last = train(private, 0, 6)
    for before, after in zip(first.models.tables, last.models.tables, strict=True):
        assert torch.equal(before.value[..., : before.width], after.value[..., : after.width])
    assert not torch.equal(first.models.dense, last.models.dense)


def test_only_ids_of_released_tables_with_much_behind_them_are_told() -> None:
    private = shop(Privacy(epsilon=100.0, user="user", tables=("item",), tally_batches=1))
    released = train(private, 0, 12, items=4)
    told = private.told(released)
    assert not told[0].any()  # users
    assert told[ITEMS][0, :4].all()
    assert not told[ITEMS][0, 4:].any()
    shown = released.models.tables[ITEMS].value[0, :, 4 : 4 + COLUMNS]
    assert (shown[:4, 0] > 0).all()
    assert not shown[4:].any()


def test_an_id_that_only_one_user_has_named_in_a_window_is_not_told() -> None:
    private = shop(Privacy(user="user", tables=("item",), tally_batches=1))
    model = private.gradients.model
    released, noise = private.start(ModelState.start([model], [0])), Loud(1)
    for step in range(40):
        item = 7 if step == 1 else 3  # after the lot of scales, one lot of one user's item
        users = torch.zeros(1, LOT, dtype=torch.long) if step == 1 else torch.arange(LOT).unsqueeze(0) % 6
        raw = [users, torch.full((1, LOT), item), torch.randn(1, LOT, 2)]
        inputs, rows = compact(raw, model.tables)
        batch = Batch(tuple(inputs), tuple(rows), torch.ones(1, LOT))
        private.step(released, torch.tensor([0]), lot_of(model, batch), noise)
        assert not private.told(released)[ITEMS][0, 7]
    assert private.told(released)[ITEMS][0, 3]


def test_noise_of_a_row_does_not_tell_when_it_was_first_named() -> None:
    fields = (Field("user", "id", 6), Field("item", "id", 4000))
    torch.manual_seed(0)
    model = deepfm(fields, dim=2, hidden=(3,))
    private = learning(model, Privacy(user="user", tables=("item",), tally_batches=1))
    released, noise = private.start(ModelState.start([model], [0])), Loud(5)
    mechanism, labels = private.mechanism, torch.zeros(1, 2000)
    for times in range(1, 10):
        named = torch.arange(2000) + (0 if times < 9 else 2000)  # the second half comes only at the ninth time
        raw = [torch.zeros(1, 2000, dtype=torch.long), named.unsqueeze(0)]
        inputs, rows = compact(raw, model.tables)
        batch = Batch(tuple(inputs), tuple(rows), labels)
        lot = lot_of(model, batch)
        of = lot.rows(model, mechanism.tables)
        add_tallies(released.counts, released.there, lot, labels, of, torch.tensor([times]), mechanism, noise)
    spread = released.counts[0][0, :-1, 1]  # sums of labels: nothing but noise
    early, late = spread[:2000].std(), spread[2000:].std()
    assert early == pytest.approx(3 * mechanism.tally_noise, rel=0.1)
    assert late == pytest.approx(float(early), rel=0.1)
    assert (released.there[0][0, :-1] == 9).all()


def test_counts_that_wait_for_noise_are_seen_by_nobody() -> None:
    private = shop(Privacy(epsilon=100.0, user="user", tables=("item",), tally_batches=5))
    released = train(private, 0, 5, items=4)  # the first lot teaches scales, four more steps
    assert released.counts[0][..., COLUMNS:].any()
    assert not released.counts[0][..., :COLUMNS].any()
    assert not released.models.tables[ITEMS].value[..., 4:].any()
    assert not private.told(released)[ITEMS].any()


def test_scales_are_found_in_one_lot_whatever_they_are() -> None:
    model = mlp((Field("x", "number", 3),), normalise=True)
    private = learning(model, Privacy())
    models = ModelState.start([model], [0])
    start_statistics(models, private.gradients.norms)
    numbers = torch.randn(1, 2000, 3) * torch.tensor([0.001, 300.0, 2e6]) + torch.tensor([0.0, 500.0, -1e6])
    numbers[0, ::7, 1] = torch.nan
    batch = Batch((numbers,), (), torch.zeros(1, 2000))
    parts = (numbers, torch.zeros(1, 2000, 1))
    find_scales(models, private.gradients.norms, parts, Lot.of_events(batch), private.mechanism, Loud(2))
    mean, variance = models.buffers["norms.0.mean"][0], models.buffers["norms.0.variance"][0]
    torch.testing.assert_close(variance.sqrt(), torch.tensor([0.001, 300.0, 2e6]), rtol=0.5, atol=0)
    assert ((mean - torch.tensor([0.0, 500.0, -1e6])).abs() < 0.6 * variance.sqrt()).all()


def test_an_event_that_is_not_finite_breaks_nothing() -> None:
    private = shop(Privacy(tables=("item",)))
    model = private.gradients.model
    released = private.start(ModelState.start([model], [0]))
    for step in range(3):
        batch = events(model, step)
        batch.inputs[2][0, 3] = torch.inf if step else torch.nan
        private.step(released, torch.tensor([0]), Lot.of_events(batch), Loud(step))
    assert torch.isfinite(released.models.dense).all()
    assert all(torch.isfinite(b).all() for b in released.models.buffers.values())


@pytest.mark.parametrize(("field", "value"), [("tables", ("shop",)), ("user", "customer")])
def test_a_field_that_is_no_field_is_refused(field: str, value: object) -> None:
    with pytest.raises(InvalidValue, match=rf"privacy\.{field}: found .*; allowed: one of user, item"):
        shop(Privacy(**{field: value}))
