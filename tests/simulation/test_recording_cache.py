"""Recorded calls that are kept on disk: used again where they hold, and only there."""

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from alphaedge.core import replays
from alphaedge.core.fields import Field
from alphaedge.core.gradients import OneAtATime, Stacked
from alphaedge.core.model import LOSSES, Loss, Model
from alphaedge.models.deepfm import deepfm
from alphaedge.models.mlp import mlp
from alphaedge.simulation.recording_cache import RecordingCache, fingerprint, recording_cache

FIELDS = [Field("x", "number", 6)]
HEAD = "def call(v0: Tensor) -> List[Tensor]:\n    k = v0.size(0)\n"


@pytest.fixture
def model() -> Model:
    return mlp(FIELDS, hidden=(8,))


def _cache(folder: Path, model: Model) -> RecordingCache:
    found = recording_cache(folder, model)
    assert found is not None
    return found


def _arguments(model: Model) -> Iterator[tuple[Tensor, list[Tensor], dict[str, Tensor], list[Tensor], Tensor]]:
    while True:
        dense = model.initial_dense() + torch.randn(3, model.dense_size)
        buffers = {name: b.expand(3, *b.shape).clone() for name, b in model.initial_buffers().items()}
        yield dense, [], buffers, [torch.randn(3, 5, 6)], torch.randn(3, 5)


def _agrees(stacked: Stacked, model: Model) -> None:
    arguments = next(_arguments(model))
    found, expected = stacked.gradient(*arguments), OneAtATime(model).gradient(*arguments)
    torch.testing.assert_close(found.dense, expected.dense, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.outputs, expected.outputs, rtol=1e-4, atol=1e-5)


def _record(folder: Path, model: Model) -> list[Path]:
    _agrees(Stacked(model, recordings=_cache(folder, model)), model)
    return list(folder.glob("*"))


def test_a_recording_is_used_from_the_first_call_on(
    tmp_path: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    assert len(_record(tmp_path, model)) == 1
    monkeypatch.setattr(replays, "record", lambda *_: pytest.fail("recorded again"))
    _agrees(Stacked(model, recordings=_cache(tmp_path, model)), model)


def test_the_first_process_and_the_next_compute_the_same_bits(tmp_path: Path, model: Model) -> None:
    arguments = next(_arguments(model))
    cold, warm = (Stacked(model, recordings=_cache(tmp_path, model)).gradient(*arguments) for _ in range(2))
    assert torch.equal(cold.dense, warm.dense)
    assert torch.equal(cold.outputs, warm.outputs)


def test_neither_recording_a_call_nor_finding_it_recorded_loads_torchs_compiler(tmp_path: Path) -> None:
    code = f"""
import sys
import torch
from pathlib import Path
from alphaedge.core.fields import Field
from alphaedge.core.gradients import Stacked
from alphaedge.models.mlp import mlp
from alphaedge.simulation.recording_cache import recording_cache

model = mlp([Field("x", "number", 6)], hidden=(8,))
dense = model.initial_dense().expand(3, -1)
Stacked(model, recordings=recording_cache(Path({str(tmp_path)!r}), model)).gradient(
    dense, [], {{}}, [torch.randn(3, 5, 6)], torch.randn(3, 5)
)
print("torch._dynamo" in sys.modules)
"""
    loaded = [subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout for _ in range(2)]
    assert [each.strip() for each in loaded] == [b"False", b"False"]


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\xff\xfe",
        b"import os",
        (HEAD + "    return [v0]\n").encode(),
        (HEAD + "    v1 = torch.ops.aten.save(v0, 'x')\n    return [v1]\n").encode(),
    ],
)
def test_a_damaged_recording_is_made_anew(tmp_path: Path, model: Model, damaged: bytes) -> None:
    (file,) = _record(tmp_path, model)
    file.write_bytes(damaged)
    _agrees(Stacked(model, recordings=_cache(tmp_path, model)), model)
    assert file.read_bytes() != damaged


def test_only_what_a_recorder_writes_is_read(tmp_path: Path, model: Model) -> None:
    found = _cache(tmp_path, model)
    good = HEAD + "    v1 = torch.ops.aten.mul(v0, 2)\n    return [v1]\n"
    found.put("call", good)
    assert found.get("call") == good
    for bad in (good.replace("aten.mul", "aten.save"), good.replace("ops.aten", "ops.prim"), good + good, "x" + good):
        found.put("call", bad)
        assert found.get("call") is None


def test_what_others_can_write_is_not_read(tmp_path: Path, model: Model) -> None:
    found = _cache(tmp_path / "own", model)
    found.put("call", HEAD + "    return [v0]\n")
    (file,) = (tmp_path / "own").iterdir()
    for mode, read in ((0o600, True), (0o644, True), (0o664, False), (0o646, False)):
        file.chmod(mode)
        assert (found.get("call") is not None) == read
    file.chmod(0o600)
    (tmp_path / "own").chmod(0o770)
    assert found.get("call") is None
    (tmp_path / "own").chmod(0o700)
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert found.get("call") is None


def test_files_that_nobody_uses_are_deleted(tmp_path: Path, model: Model) -> None:
    old = tmp_path / "old.txt"
    old.write_text("")

    os.utime(old, (0, 0))
    _cache(tmp_path, model).put("call", "")
    assert not old.exists()
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_cannot_be_made_costs_nothing_but_time(tmp_path: Path, model: Model) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert _record(tmp_path / "file" / "recordings", model) == []


def test_another_structure_number_or_loss_is_another_model() -> None:
    known = [
        fingerprint(made)
        for made in (
            mlp(FIELDS, hidden=(8,)),
            mlp(FIELDS, hidden=(9,)),
            mlp(FIELDS, hidden=(8,), loss="bce"),
            deepfm([Field("item", "id", 9), *FIELDS]),
        )
    ]
    assert None not in known
    assert len(set(known)) == len(known)
    assert fingerprint(mlp(FIELDS, hidden=(8,))) == known[0]


def _huber(outputs: Tensor, labels: Tensor, delta: float) -> Tensor:
    return F.huber_loss(outputs, labels, delta=delta)


class Own(nn.Linear):
    """A module of a user's own."""


def test_recordings_of_a_users_own_module_or_loss_are_not_kept() -> None:
    own_loss = Loss(partial(_huber, delta=1.0), LOSSES["mse"].link)
    assert fingerprint(Model(Own(6, 1), fields=["x"], loss="mse")) is None
    assert fingerprint(Model(nn.Linear(6, 1), fields=["x"], loss=own_loss)) is None
    assert fingerprint(Model(nn.Sequential(nn.Linear(6, 4), Own(4, 1)), fields=["x"], loss="mse")) is None
