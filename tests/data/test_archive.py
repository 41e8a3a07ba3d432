"""Archives are found on disk or fetched, checked, and kept whole; whatever fails says what to do and leaves nothing."""

import hashlib
import io
import socket
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from alphaedge.data.archive import Archive, cache_folder, fetch, find, read
from alphaedge.errors import AlphaEdgeError, ArchiveError

from .archives import pack

CONTENT = b"1::2::3\n" * 50_000
PAGE = "https://example.org/things"


def zipped(content: bytes = CONTENT, member: str = "things/a/b/things.dat") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr(member, content)
    return buffer.getvalue()


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


@dataclass
class Publisher:
    """A server on this machine: what it sends, how long it says that is, and what it was asked for."""

    url: str = ""
    body: bytes = b""
    status: int = 200
    length: int | None = None  # what Content-Length claims; None: the truth
    chunked: bool = False  # a body in pieces, the last of which never comes
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    state = Publisher()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            state.asked.append(self.path)
            self.close_connection = True
            self.send_response(state.status)
            if state.chunked:
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self.wfile.write(f"{len(state.body) + 1000:x}\r\n".encode() + state.body)
                return
            self.send_header("Content-Length", str(len(state.body) if state.length is None else state.length))
            self.end_headers()
            self.wfile.write(state.body)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}/things.zip"
    yield state
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no folder of archives, and no proxy between us and ourselves."""
    monkeypatch.delenv("ALPHAEDGE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache" / "alphaedge"


def left_over(cache: Path) -> list[str]:
    return sorted(f.name for f in cache.iterdir()) if cache.exists() else []


def refusal(archive: Archive) -> str:
    with pytest.raises(ArchiveError) as caught:
        fetch(archive)
    return str(caught.value)


def test_the_named_folder_comes_before_the_cache(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = pack(tmp_path / "given", "things", {"a.dat": b"given"})
    pack(cache, "things", {"a.dat": b"cached"})
    monkeypatch.setenv("ALPHAEDGE_DATA", str(tmp_path / "given"))
    assert find(Archive("things", PAGE)) == given
    assert read(Archive("things", PAGE), "a.dat").read() == b"given"


def test_what_the_named_folder_lacks_is_looked_for_in_the_cache(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = pack(cache, "things", {"a.dat": b"cached"})
    monkeypatch.setenv("ALPHAEDGE_DATA", str(tmp_path))
    assert find(Archive("things", PAGE)) == cached
    assert fetch(Archive("things", PAGE)) == cached
    assert find(Archive("other", PAGE)) is None


def test_the_cache_is_in_the_users_home_if_nothing_else_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "alphaedge"


def test_what_is_there_is_not_downloaded_again(cache: Path, publisher: Publisher) -> None:
    pack(cache, "things", {"a.dat": b"cached"})
    fetch(Archive("things", PAGE, publisher.url))
    assert publisher.asked == []


def test_a_download_is_checked_reported_and_kept(cache: Path, publisher: Publisher) -> None:
    publisher.body = zipped()
    archive = Archive("things", PAGE, publisher.url, {"things.dat": md5(CONTENT)})
    reports: list[tuple[int, int | None]] = []
    path = fetch(archive, lambda done, total: reports.append((done, total)))
    assert path == cache / "things.zip"
    assert path.read_bytes() == publisher.body
    assert left_over(cache) == ["things.zip"]
    size = len(publisher.body)
    assert len(reports) > 2
    assert [done for done, _ in reports] == sorted({done for done, _ in reports})
    assert reports[-1] == (size, size)
    assert {total for _, total in reports} == {size}
    assert read(archive, "things.dat").read() == CONTENT
    assert publisher.asked == ["/things.zip"], "the second time it comes from the cache"


def test_a_wrong_checksum_is_refused_with_both_sums(cache: Path, publisher: Publisher) -> None:
    publisher.body = zipped(b"something else")
    said = refusal(Archive("things", PAGE, publisher.url, {"things.dat": md5(CONTENT)}))
    for words in ("things.zip", "things.dat", md5(b"something else"), md5(CONTENT), publisher.url):
        assert words in said
    assert left_over(cache) == []


def test_a_download_without_a_member_it_should_have_is_refused(cache: Path, publisher: Publisher) -> None:
    publisher.body = zipped(member="other.dat")
    said = refusal(Archive("things", PAGE, publisher.url, {"things.dat": md5(CONTENT)}))
    assert "things.zip" in said
    assert "things.dat has checksum no such file" in said
    assert left_over(cache) == []


def test_a_body_that_breaks_off_is_refused(cache: Path, publisher: Publisher) -> None:
    publisher.body, publisher.length = zipped()[:100_000], 400_000
    said = refusal(Archive("things", PAGE, publisher.url))
    for words in ("things.zip", "100000 of 400000 bytes", PAGE, str(cache)):
        assert words in said
    assert left_over(cache) == []


def test_a_body_in_pieces_that_breaks_off_is_refused(cache: Path, publisher: Publisher) -> None:
    publisher.body, publisher.chunked = zipped()[:100_000], True
    assert "things.zip" in refusal(Archive("things", PAGE, publisher.url))
    assert left_over(cache) == []


@pytest.mark.parametrize("body", [b"", b"<html>please log in</html>"])
def test_what_is_no_zip_file_is_refused(body: bytes, cache: Path, publisher: Publisher) -> None:
    publisher.body = body
    said = refusal(Archive("things", PAGE, publisher.url))
    assert "things.zip" in said
    assert "zip" in said.split("(")[1]
    assert left_over(cache) == []


@pytest.mark.parametrize("status", [404, 500])
def test_a_publisher_that_says_no_is_named(status: int, cache: Path, publisher: Publisher) -> None:
    publisher.status, publisher.body = status, zipped()
    said = refusal(Archive("things", PAGE, publisher.url))
    for words in ("things.zip", publisher.url, str(status), PAGE):
        assert words in said
    assert left_over(cache) == []


def test_a_publisher_out_of_reach_is_named(cache: Path) -> None:
    with socket.socket() as taken:  # bound but not listening: whoever connects is refused
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/things.zip"
        said = refusal(Archive("things", PAGE, url))
    for words in ("things.zip", url, PAGE, str(cache), "ALPHAEDGE_DATA"):
        assert words in said
    assert left_over(cache) == []


def test_without_an_address_it_says_where_to_get_it_and_where_to_put_it(cache: Path) -> None:
    said = refusal(Archive("things", PAGE))
    for words in ("things.zip", "log-in", PAGE, str(cache), "ALPHAEDGE_DATA"):
        assert words in said
    assert not cache.exists()


def test_a_cache_that_cannot_be_made_is_an_archive_error(
    tmp_path: Path, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    publisher.body = zipped()
    assert "things.zip" in refusal(Archive("things", PAGE, publisher.url))


@pytest.mark.parametrize("member", ["a.dat", "things/a.dat", "things-eb15973/data/raw/a.dat"])
def test_a_member_is_found_in_whatever_folder(member: str, cache: Path) -> None:
    pack(cache, "things", {"things/": b"", "things/aa.dat": b"no", "things/a.dat.bak": b"no", member: b"yes"})
    assert read(Archive("things", PAGE), "a.dat").read() == b"yes"


def test_a_missing_member_is_named(cache: Path) -> None:
    path = pack(cache, "things", {"things/b.dat": b""})
    with pytest.raises(ArchiveError) as caught:
        read(Archive("things", PAGE), "a.dat")
    assert str(path) in str(caught.value)
    assert "a.dat" in str(caught.value)


def test_a_file_on_disk_that_is_no_zip_is_named(cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / "things.zip").write_bytes(b"no zip")
    with pytest.raises(ArchiveError) as caught:
        read(Archive("things", PAGE), "a.dat")
    assert str(cache / "things.zip") in str(caught.value)


def test_damage_inside_a_zip_file_is_named(cache: Path) -> None:
    path = pack(cache, "things", {"a.dat": bytes(range(256)) * 200})
    content = bytearray(path.read_bytes())
    content[40:80] = b"\xff" * 40  # inside the compressed bytes
    path.write_bytes(content)
    with pytest.raises(ArchiveError) as caught:
        read(Archive("things", PAGE), "a.dat")
    assert str(path) in str(caught.value)


def test_whoever_catches_alphaedge_errors_catches_these() -> None:
    assert issubclass(ArchiveError, AlphaEdgeError)
