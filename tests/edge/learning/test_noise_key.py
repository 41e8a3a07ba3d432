"""The noise of private steps: the same for the same lot, normal, and nobody's to predict without the file."""

import os
import stat
from pathlib import Path

import pytest
import torch

from alphaedge.edge.learning.noise_key import FILE, SecretNoise, load_secret, no_noise
from alphaedge.errors import CheckpointError

SECRET = bytes(range(32))


def test_the_same_lot_gets_the_same_noise_and_any_other_gets_another() -> None:
    first = SecretNoise(SECRET, "terms")(7)([0], 1000)
    assert torch.equal(first, SecretNoise(SECRET, "terms")(7)([0], 1000))
    others = [
        SecretNoise(SECRET, "terms")(8),
        SecretNoise(SECRET, "other terms")(7),
        SecretNoise(bytes(32), "terms")(7),
        SecretNoise(SECRET, "terms")(7, b"a digest"),
    ]
    for other in others:
        drawn = other([0], 1000)
        assert abs(float(torch.corrcoef(torch.cat([first, drawn]))[0, 1])) < 0.15
    stream = SecretNoise(SECRET, "terms")(7)
    assert not torch.equal(stream([0], 10), stream([0], 10)), "a stream goes on"


def test_the_noise_is_standard_normal() -> None:
    drawn = SecretNoise(SECRET, "terms")(1)([0], 1000, 501)
    assert drawn.shape == (1, 1000, 501)
    assert drawn.dtype == torch.float64
    assert abs(float(drawn.mean())) < 0.006  # four standard errors
    assert abs(float(drawn.var()) - 1) < 0.01
    assert abs(float((drawn**4).mean()) - 3) < 0.06
    edges = torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0], dtype=torch.float64)
    share = (drawn.flatten().unsqueeze(1) < edges).double().mean(0)
    torch.testing.assert_close(share, torch.special.ndtr(edges), rtol=0, atol=0.004)
    assert abs(float(torch.corrcoef(torch.stack([drawn.flatten()[:-1], drawn.flatten()[1:]]))[0, 1])) < 0.006


def test_the_secret_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = load_secret(tmp_path, released=False)
    finally:
        os.umask(before)
    assert len(made) == 32
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    assert load_secret(tmp_path, released=True) == made
    assert load_secret(tmp_path / "other", released=False) != made


def test_a_lost_secret_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointError, match=r"noise\.key is gone.*restore it from a backup, or move .*checkpoints away"
    ):
        load_secret(tmp_path, released=True)
    assert not (tmp_path / FILE).exists()
    (tmp_path / FILE).write_bytes(b"short")
    with pytest.raises(CheckpointError, match="has 5 bytes, not 32"):
        load_secret(tmp_path, released=False)


def test_a_learner_that_publishes_nothing_has_no_noise() -> None:
    with pytest.raises(CheckpointError, match="no noise for the lot from event 3 on"):
        no_noise(3, b"")
