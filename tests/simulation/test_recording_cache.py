"""Recorded calls that are kept on disk: used again where they hold, and only there."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from alphaedge.core import gradients
from alphaedge.core.fields import Field
from alphaedge.core.gradients import OneAtATime, Stacked
from alphaedge.core.model import Model
from alphaedge.models.mlp import mlp
from alphaedge.simulation.recording_cache import RecordingCache, fingerprint


class Scaled(nn.Module):
    """A linear layer times a number that no repr shows."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale, self.layer = scale, nn.Linear(6, 1)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layer(x) * self.scale
        return found


@pytest.fixture
def model() -> Model:
    return mlp([Field("x", "number", 6)], hidden=(8,))


def _cache(folder: Path, model: Model) -> RecordingCache:
    known = fingerprint(model)
    assert known is not None
    return RecordingCache(folder, known)


def _arguments(model: Model) -> Iterator[tuple[Tensor, list[Tensor], dict[str, Tensor], list[Tensor], Tensor]]:
    while True:
        dense = model.initial_dense() + torch.randn(3, model.dense_size)
        buffers = {name: b.expand(3, *b.shape).clone() for name, b in model.initial_buffers().items()}
        yield dense, [], buffers, [torch.randn(3, 5, 6)], torch.randn(3, 5)


def _record(folder: Path, model: Model) -> list[Path]:
    stacked = Stacked(model, recordings=_cache(folder, model))
    _agrees(stacked, model)
    return list(folder.glob("*.txt"))


def _agrees(stacked: Stacked, model: Model) -> None:
    arguments = next(_arguments(model))
    found, expected = stacked.gradient(*arguments), OneAtATime(model).gradient(*arguments)
    torch.testing.assert_close(found.dense, expected.dense, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.outputs, expected.outputs, rtol=1e-4, atol=1e-5)


def test_a_recording_is_used_from_the_first_call_on(
    tmp_path: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(_record(tmp_path, model)) == 1
    monkeypatch.setattr(gradients, "record", lambda *_: pytest.fail("recorded again"))
    _agrees(Stacked(model, recordings=_cache(tmp_path, model)), model)


def test_the_first_process_and_the_next_compute_the_same_bits(tmp_path: Path, model: Model) -> None:
    arguments = next(_arguments(model))
    cold, warm = (Stacked(model, recordings=_cache(tmp_path, model)).gradient(*arguments) for _ in range(2))
    assert torch.equal(cold.dense, warm.dense)
    assert torch.equal(cold.outputs, warm.outputs)


def test_a_damaged_recording_is_made_anew(tmp_path: Path, model: Model) -> None:
    (file,) = _record(tmp_path, model)
    for damaged in (b"", b"\xff\xfe", b"def call(v0: Tensor) -> List[Tensor]:\n    return [v0]\n", b"import os"):
        file.write_bytes(damaged)
        stacked = Stacked(model, recordings=_cache(tmp_path, model))
        _agrees(stacked, model)
        assert file.read_bytes() != damaged


def test_a_file_that_others_can_write_is_not_read(tmp_path: Path, model: Model) -> None:
    (file,) = _record(tmp_path, model)
    forged = tmp_path / _cache(tmp_path, model)._path("mine").name
    forged.write_text("def call(v0: Tensor) -> List[Tensor]:\n    return [v0]\n")
    for mode, read in ((0o600, True), (0o644, True), (0o664, False), (0o646, False)):
        forged.chmod(mode)
        assert (_cache(tmp_path, model).get("mine") is not None) == read
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_folder_that_cannot_be_made_costs_nothing_but_time(tmp_path: Path, model: Model) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert _record(tmp_path / "file" / "recordings", model) == []


def test_numbers_that_a_module_holds_make_another_model() -> None:
    one, other = (fingerprint(Model(Scaled(scale), fields=["x"], loss="mse")) for scale in (1.0, 2.0))
    assert one != other
    assert one == fingerprint(Model(Scaled(1.0), fields=["x"], loss="mse"))
    assert one != fingerprint(Model(Scaled(1.0), fields=["x"], loss="bce"))


def test_a_model_without_source_is_not_kept() -> None:
    there: dict[str, type[nn.Module]] = {"nn": nn}  # type: ignore[dict-item]
    exec("class Typed(nn.Linear): pass", there)
    assert fingerprint(Model(there["Typed"](6, 1), fields=["x"], loss="mse")) is None
