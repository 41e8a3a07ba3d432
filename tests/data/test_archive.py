"""Archives are found on disk or downloaded, and checked. A failure says what to do and leaves nothing behind."""

import hashlib
import io
import socket
import subprocess
import sys
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
    """A local server: what it sends, the length that it claims, and the paths that were requested."""

    url: str = ""
    body: bytes = b""
    status: int = 200
    length: int | None = None  # the Content-Length header; None: the length of the body; 0: no header
    chunked: bool = False  # send the body in chunks and leave out the last
    requested: list[str] = field(default_factory=list)


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    state = Publisher()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            state.requested.append(self.path)
            self.close_connection = True
            self.send_response(state.status)
            if state.chunked:
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self.wfile.write(f"{len(state.body) + 1000:x}\r\n".encode() + state.body)
                return
            if state.length != 0:
                self.send_header("Content-Length", str(state.length or len(state.body)))
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
    """Use an empty cache, no folder of archives and no proxy."""
    monkeypatch.delenv("ALPHAEDGE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache" / "alphaedge"


def files_in(cache: Path) -> list[str]:
    return sorted(f.name for f in cache.iterdir()) if cache.exists() else []


def refusal(archive: Archive) -> str:
    with pytest.raises(ArchiveError) as caught:
        fetch(archive)
    return str(caught.value)


def test_the_folder_in_alphaedge_data_comes_before_the_cache(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = pack(tmp_path / "given", "things", {"a.dat": b"given"})
    pack(cache, "things", {"a.dat": b"cached"})
    monkeypatch.setenv("ALPHAEDGE_DATA", str(tmp_path / "given"))
    assert find(Archive("things", PAGE)) == given
    assert read(Archive("things", PAGE), "a.dat").read() == b"given"


def test_an_archive_that_is_not_in_the_folder_is_looked_for_in_the_cache(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = pack(cache, "things", {"a.dat": b"cached"})
    monkeypatch.setenv("ALPHAEDGE_DATA", str(tmp_path))
    assert find(Archive("things", PAGE)) == cached
    assert fetch(Archive("things", PAGE)) == cached
    assert find(Archive("other", PAGE)) is None


def test_by_default_the_cache_is_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "alphaedge"


def test_a_cached_archive_is_not_downloaded_again(cache: Path, publisher: Publisher) -> None:
    pack(cache, "things", {"a.dat": b"cached"})
    fetch(Archive("things", PAGE, publisher.url))
    assert publisher.requested == []


def test_a_download_is_checked_reported_and_kept(cache: Path, publisher: Publisher) -> None:
    publisher.body = zipped()
    archive = Archive("things", PAGE, publisher.url, {"things.dat": md5(CONTENT)})
    reports: list[tuple[int, int | None]] = []
    path = fetch(archive, lambda done, total: reports.append((done, total)))
    assert path == cache / "things.zip"
    assert path.read_bytes() == publisher.body
    assert files_in(cache) == ["things.zip"]
    size = len(publisher.body)
    assert len(reports) > 2
    assert [done for done, _ in reports] == sorted(done for done, _ in reports)
    assert reports[-1] == (size, size)
    assert {total for _, total in reports} == {size}
    assert read(archive, "things.dat").read() == CONTENT
    assert publisher.requested == ["/things.zip"], "the second read is from the cache"


def test_a_download_without_a_stated_length_reports_no_total(cache: Path, publisher: Publisher) -> None:
    publisher.body, publisher.length = zipped(), 0
    reports: list[tuple[int, int | None]] = []
    fetch(Archive("things", PAGE, publisher.url), lambda done, total: reports.append((done, total)))
    assert {total for _, total in reports} == {None}
    assert reports[-1][0] >= len(publisher.body)


def test_a_download_prints_nothing(cache: Path, publisher: Publisher, capfd: pytest.CaptureFixture[str]) -> None:
    publisher.body = zipped()
    fetch(Archive("things", PAGE, publisher.url))
    assert capfd.readouterr() == ("", "")


def test_the_download_library_is_loaded_only_for_a_download(cache: Path) -> None:
    pack(cache, "things", {"a.dat": b"cached"})
    code = (
        "import sys; from alphaedge.data.archive import Archive, read; read(Archive('things', ''), 'a.dat'); "
        "print({'pooch', 'requests'} & set(sys.modules))"
    )
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert output == "set()\n"


def test_a_wrong_checksum_is_refused_with_both_sums(cache: Path, publisher: Publisher) -> None:
    publisher.body = zipped(b"something else")
    message = refusal(Archive("things", PAGE, publisher.url, {"things.dat": md5(CONTENT)}))
    for words in ("things.zip", "things.dat", md5(b"something else"), md5(CONTENT), publisher.url):
        assert words in message
    assert files_in(cache) == []


def test_a_download_without_a_member_it_should_have_is_refused(cache: Path, publisher: Publisher) -> None:
    publisher.body = zipped(member="other.dat")
    message = refusal(Archive("things", PAGE, publisher.url, {"things.dat": md5(CONTENT)}))
    assert "things.zip" in message
    assert "things.dat has checksum no such file" in message
    assert files_in(cache) == []


def test_a_body_that_breaks_off_is_refused(cache: Path, publisher: Publisher) -> None:
    publisher.body, publisher.length = zipped()[:100_000], 400_000
    message = refusal(Archive("things", PAGE, publisher.url))
    for words in ("things.zip", "100000 bytes read", PAGE, str(cache)):
        assert words in message
    assert files_in(cache) == []


def test_a_chunked_body_that_breaks_off_is_refused(cache: Path, publisher: Publisher) -> None:
    publisher.body, publisher.chunked = zipped()[:100_000], True
    assert "things.zip" in refusal(Archive("things", PAGE, publisher.url))
    assert files_in(cache) == []


@pytest.mark.parametrize("body", [b"", b"<html>please log in</html>"])
def test_a_download_that_is_no_zip_file_is_refused(body: bytes, cache: Path, publisher: Publisher) -> None:
    publisher.body = body
    message = refusal(Archive("things", PAGE, publisher.url))
    assert "things.zip" in message
    assert "zip" in message.split("(")[1]
    assert files_in(cache) == []


@pytest.mark.parametrize("status", [404, 500])
def test_an_error_status_is_reported_with_the_address(status: int, cache: Path, publisher: Publisher) -> None:
    publisher.status, publisher.body = status, zipped()
    message = refusal(Archive("things", PAGE, publisher.url))
    for words in ("things.zip", publisher.url, str(status), PAGE):
        assert words in message
    assert files_in(cache) == []


def test_an_unreachable_publisher_is_reported_with_the_address(cache: Path) -> None:
    with socket.socket() as taken:  # bound but not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/things.zip"
        message = refusal(Archive("things", PAGE, url))
    for words in ("things.zip", url, PAGE, str(cache), "ALPHAEDGE_DATA"):
        assert words in message
    assert files_in(cache) == []


def test_an_archive_without_a_download_says_where_to_get_it_and_where_to_put_it(cache: Path) -> None:
    message = refusal(Archive("things", PAGE))
    for words in ("things.zip", "log-in", PAGE, str(cache), "ALPHAEDGE_DATA"):
        assert words in message
    assert not cache.exists()


def test_a_cache_folder_that_cannot_be_created_is_an_archive_error(
    tmp_path: Path, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    publisher.body = zipped()
    assert "things.zip" in refusal(Archive("things", PAGE, publisher.url))


@pytest.mark.parametrize("member", ["a.dat", "things/a.dat", "things-eb15973/data/raw/a.dat"])
def test_a_member_is_found_in_any_folder(member: str, cache: Path) -> None:
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


def test_an_archive_error_is_an_alphaedge_error() -> None:
    assert issubclass(ArchiveError, AlphaEdgeError)
