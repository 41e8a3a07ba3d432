"""Events that are kept in files are the same events, and the files go with them."""

import gc
import os
import tempfile
from pathlib import Path

import pytest
import torch

from alphaedge.simulation.batches import Inputs
from alphaedge.simulation.memory.parts import InMemory, OnDisk, Parts, keep_on_disk

from ..fleets import factors, measured, shop_data

KINDS = [InMemory, OnDisk]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_parts_come_back_in_their_order(kind: type[Parts], dtype: torch.dtype) -> None:
    parts = [torch.arange(6 * n).view(n, 3, 2).to(dtype) + n for n in (2, 1, 4)]
    made = kind()
    for part in parts:
        made.add(part)
    assert torch.equal(made.joined(), torch.cat(parts))


def test_a_part_of_another_tensor_is_written_as_it_looks() -> None:
    made = OnDisk()
    whole = torch.arange(12).view(3, 4)
    made.add(whole.T)
    assert torch.equal(made.joined(), whole.T)


def test_streams_in_files_are_the_same_streams() -> None:
    data = shop_data()
    for kept, stream in zip(keep_on_disk(iter(data.streams)), data.streams, strict=True):
        assert kept.inputs.keys() == stream.inputs.keys()
        assert all(torch.equal(kept.inputs[name], stream.inputs[name]) for name in stream.inputs)
        assert torch.equal(kept.labels, stream.labels)
        assert torch.equal(kept.times, stream.times)


def test_batches_in_files_are_the_same_batches() -> None:
    data, model = shop_data(), factors(30, 20)
    here, there = (Inputs.cut(data, model, 20, parts=kind) for kind in KINDS)
    for mine, theirs in zip((*here.inputs, *here.rows), (*there.inputs, *there.rows), strict=True):
        assert torch.equal(mine, theirs)


def test_no_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept = keep_on_disk(measured().streams)
    assert list(tmp_path.iterdir()) == []
    assert len(kept) == 3
    del kept
    gc.collect()
    assert str(tmp_path) not in Path(f"/proc/{os.getpid()}/maps").read_text()
