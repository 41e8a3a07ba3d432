import os
from pathlib import Path

import pytest

from alphaedge.files import replace_file, replacing


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    path.write_bytes(b"old")
    with replacing(path) as file:
        file.write(b"n")
        file.flush()
        assert path.read_bytes() == b"old"
        file.write(b"ew")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["status.json"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "status.json"
    path.write_bytes(b"old")

    def fail() -> None:
        with replacing(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["status.json"]


def test_what_a_killed_process_left_behind_is_not_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "status.json.part").write_bytes(b"a long half of something")
    replace_file(tmp_path / "status.json", b"new")
    assert (tmp_path / "status.json").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["status.json"]


def test_a_key_is_never_readable_by_others(tmp_path: Path) -> None:
    path = tmp_path / "edge.key"
    path.write_bytes(b"old")
    path.chmod(0o644)
    with replacing(path, mode=0o600) as file:
        assert os.fstat(file.fileno()).st_mode & 0o777 == 0o600
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_durable_file_is_on_disk_before_it_has_its_name_and_its_name_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, synced = tmp_path / "edge.pem", []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        synced.append((os.path.samestat(os.fstat(descriptor), tmp_path.stat()), path.exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    replace_file(path, b"content")
    assert synced == []
    path.unlink()
    replace_file(path, b"content", durable=True)
    assert synced == [(False, False), (True, True)]
