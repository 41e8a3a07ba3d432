"""Each attack forges what its file says, and nothing else."""

import pytest
import torch

from alphaedge.attacks.attack import Forgery, Scene
from alphaedge.attacks.catalog import ATTACKS


def _forged(name: str, number: int = 1, seed: int = 0, victim: bool = True) -> tuple[Forgery, Forgery, Scene]:
    """What would be published, what is published instead, and the scene."""
    made = torch.Generator().manual_seed(7)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=made)

    def publication() -> Forgery:
        statistics = {"norm.mean": draw(3), "norm.count": torch.tensor(5)}
        tallies = torch.stack([draw(30).abs() * 20, draw(30)], dim=1)
        return Forgery(draw(400), [draw(30, 4)], statistics, 100, {"b": 0.2}, [tallies])

    honest = publication()
    rows, tallies = [r.clone() for r in honest.rows], [t.clone() for t in honest.tallies]
    forged = Forgery(honest.dense.clone(), rows, dict(honest.statistics), 100, dict(honest.shares), tallies)
    rng = torch.Generator().manual_seed(seed)
    scene = Scene(draw(400), number, publication(), publication() if victim else None, ["x", "y"], rng)
    ATTACKS[name]().forge(forged, scene)
    return honest, forged, scene


@pytest.mark.parametrize("name", ATTACKS)
def test_shapes_stay_and_everything_is_finite_so_that_no_check_of_the_format_refuses_it(name: str) -> None:
    honest, forged, _ = _forged(name)
    assert forged.dense.shape == honest.dense.shape
    assert [r.shape for r in forged.rows] == [r.shape for r in honest.rows]
    assert {n: x.shape for n, x in forged.statistics.items()} == {n: x.shape for n, x in honest.statistics.items()}
    assert all(bool(torch.isfinite(x).all()) for x in (forged.dense, *forged.rows, *forged.statistics.values()))
    assert 0 <= forged.records <= 2**53


@pytest.mark.parametrize("name", ATTACKS)
def test_the_same_randomness_forges_the_same(name: str) -> None:
    one, two = _forged(name)[1], _forged(name)[1]
    assert torch.equal(one.dense, two.dense)
    assert all(torch.equal(a, b) for a, b in zip(one.rows, two.rows, strict=True))


def test_flipped_labels_publish_what_was_learned() -> None:
    honest, forged, _ = _forged("flipped-labels")
    assert torch.equal(honest.dense, forged.dense)
    assert [name for name in ATTACKS if ATTACKS[name]().flips_labels] == ["flipped-labels"]


@pytest.mark.parametrize("name", ["random-model", "collusion", "false-claims"])
def test_a_random_model_has_the_size_of_the_honest_one_and_nothing_in_common_with_it(name: str) -> None:
    honest, forged, _ = _forged(name)
    for true, false in zip((honest.dense, *honest.rows), (forged.dense, *forged.rows), strict=True):
        assert float(false.std() / true.std()) == pytest.approx(1, rel=0.2)
        assert abs(float(torch.corrcoef(torch.stack([true.flatten(), false.flatten()]))[0, 1])) < 0.3


def test_a_negated_update_mirrors_the_model_at_the_start() -> None:
    honest, forged, scene = _forged("negated-update")
    torch.testing.assert_close((honest.dense + forged.dense) / 2, scene.start)


def test_a_scaled_update_goes_ten_times_as_far() -> None:
    honest, forged, scene = _forged("scaled-update")
    torch.testing.assert_close(forged.dense - scene.start, 10 * (honest.dense - scene.start))


def test_drift_grows_with_every_publication_in_one_direction() -> None:
    steps = [_forged("drift", number)[1].dense - _forged("drift", number)[0].dense for number in (1, 2, 10)]
    torch.testing.assert_close(steps[1], 2 * steps[0], rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(steps[2], 10 * steps[0], rtol=1e-3, atol=1e-5)


def test_a_poisoned_copy_is_the_victims_model_but_for_a_tenth() -> None:
    _, forged, scene = _forged("poisoned-copy")
    assert scene.victim is not None
    assert float((forged.dense != scene.victim.dense).float().mean()) == pytest.approx(0.1, abs=0.06)


def test_a_free_rider_publishes_the_victims_model_or_the_start() -> None:
    _, forged, scene = _forged("free-rider")
    assert scene.victim is not None
    assert torch.equal(forged.dense, scene.victim.dense)
    _, forged, scene = _forged("free-rider", victim=False)
    assert torch.equal(forged.dense, scene.start)


def test_colluders_recommend_each_other() -> None:
    assert _forged("collusion")[1].shares == {"x": 0.5, "y": 0.5}


def test_false_claims_are_as_large_as_the_wire_takes() -> None:
    assert _forged("false-claims")[1].records == 2**53


def test_poisoned_statistics_are_huge_and_leave_counts_alone() -> None:
    _, forged, _ = _forged("poisoned-statistics")
    assert bool((forged.statistics["norm.mean"] == 1e30).all())
    assert int(forged.statistics["norm.count"]) == 5


def test_poisoned_rows_are_published_for_every_id() -> None:
    assert [name for name in ATTACKS if ATTACKS[name]().claims_all_rows] == ["poisoned-rows", "invented-tallies"]
    assert bool((_forged("poisoned-rows")[1].rows[0] == 1.0).all())


def test_replayed_models_are_the_first_publication() -> None:
    _, forged, scene = _forged("replayed-models")
    assert scene.first is not None
    assert torch.equal(forged.dense, scene.first.dense)


def test_false_tallies_are_turned_round_and_inflated_beside_an_honest_model() -> None:
    honest, forged, _ = _forged("false-tallies")
    assert torch.equal(forged.dense, honest.dense)
    assert torch.equal(forged.rows[0], honest.rows[0])
    torch.testing.assert_close(forged.tallies[0], honest.tallies[0] * torch.tensor([5.0, -5.0]))


def test_invented_tallies_say_the_same_of_every_id() -> None:
    honest, forged, _ = _forged("invented-tallies")
    assert torch.equal(forged.rows[0], honest.rows[0])
    assert forged.tallies[0].unique(dim=0).tolist() == [[1000.0, -1000.0]]
