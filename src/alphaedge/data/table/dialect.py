"""How a CSV file is written: compression, encoding, separator. Found from the first part of the file."""

import codecs
import csv
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from alphaedge.errors import InvalidValue

SAMPLE_BYTES: Final = 8_000_000  # after decompression
SEPARATORS: Final = (",", ";", "\t", "|")
_NAMES: Final = {"\t": "tabs"}
_SEPARATOR_LINES: Final = 100
_BYTE_ORDER_MARKS: Final = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_BINARY: Final = {b"PK\x03\x04": "a zip or Excel file", b"ARROW1": "an Arrow file", b"%PDF": "a PDF file"}


@final
@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written, and the names in its first line."""

    columns: tuple[str, ...]
    separator: str
    encoding: str
    compressed: bool

    @property
    def plain(self) -> bool:
        """Whether the file is UTF-8 as it is, so that it can be read piece by piece."""
        return self.encoding.startswith("utf-8") and not self.compressed

    def describe(self) -> str:
        """Return in words what differs from a plain CSV file; empty if nothing does."""
        parts = [f"separated by {_NAMES.get(self.separator, self.separator)}"] if self.separator != "," else []
        parts += [self.encoding] if not self.encoding.startswith("utf-8") else []
        return ", ".join([*parts, *(["gzip"] if self.compressed else [])])


@final
@dataclass(frozen=True)
class Sample:
    """The first part of a CSV file as text that ends with a line, and whether it is the whole file."""

    dialect: Dialect
    text: str
    whole: bool


def read_sample(path: Path) -> Sample:
    """Find out how a file is written."""
    where = f"table: file {path}"
    with path.open("rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
    with _open(path, compressed) as opened:
        raw = read(opened, SAMPLE_BYTES + 1, where)
    whole = len(raw) <= SAMPLE_BYTES
    encoding = _encoding(raw, where)
    text = codecs.getincrementaldecoder(encoding)(errors="replace").decode(raw, final=whole).removeprefix("\ufeff")
    if not text.strip():
        raise InvalidValue(where, "nothing in it", "a line with the names of the columns, then a line for each event")
    if not whole:
        text = text[: _last_line_end(text)]
    separator = _separator(text)
    columns = tuple(name.strip() for name in next(csv.reader(_lines(text), delimiter=separator)))
    _check_header(columns, where)
    return Sample(Dialect(columns, separator, encoding, compressed), text, whole)


def read_decoded(path: Path, dialect: Dialect) -> bytes:
    """Return the whole of a file that is not plain as UTF-8."""
    where, out = f"table: file {path}", io.BytesIO()
    if dialect.encoding.startswith("utf-8"):
        with _open(path, dialect.compressed) as opened:
            while chunk := read(opened, SAMPLE_BYTES, where):
                out.write(chunk)
        return out.getvalue()
    decoder = codecs.getincrementaldecoder(dialect.encoding)(errors="replace")
    with _open(path, dialect.compressed) as opened:
        while chunk := read(opened, SAMPLE_BYTES, where):
            out.write(decoder.decode(chunk).encode())
    out.write(decoder.decode(b"", final=True).encode())
    return out.getvalue()


def read(opened: gzip.GzipFile | io.BufferedReader, size: int, where: str) -> bytes:
    """Read bytes; a damaged compressed file is refused."""
    try:
        return opened.read(size)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidValue(where, f"gzip data that is damaged or ends early ({error})", "a whole file: fetch it again") from error  # fmt: skip # noqa: E501


def _open(path: Path, compressed: bool) -> gzip.GzipFile | io.BufferedReader:
    return gzip.open(path) if compressed else path.open("rb")


def _encoding(raw: bytes, where: str) -> str:
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if raw.startswith(mark):
            return encoding
    kind = next((name for magic, name in _BINARY.items() if raw.startswith(magic)), "binary data")
    if kind != "binary data" or b"\x00" in raw:
        raise InvalidValue(
            where, kind, "a CSV file (UTF-8, Latin-1, or UTF-16 with a byte order mark) or a Parquet file"
        )
    for encoding in ("utf-8", "cp1252"):
        try:
            codecs.getincrementaldecoder(encoding)().decode(raw)
        except UnicodeDecodeError:
            continue
        return encoding
    return "latin-1"


def _last_line_end(text: str) -> int:
    """Return where the last line ends that is not inside quotes."""
    end = text.rfind("\n") + 1
    while end > 0 and text.count('"', 0, end) % 2:
        end = text.rfind("\n", 0, end - 1) + 1
    return end or len(text)


def _lines(text: str) -> Iterator[str]:
    return iter(io.StringIO(text, newline=""))


def _separator(text: str) -> str:
    """Return what cuts the most lines into as many parts as the first one, and that into the most parts."""
    found = {}
    for separator in SEPARATORS:
        lines = csv.reader(_lines(text), delimiter=separator)
        widths = [len(line) for line, _ in zip(lines, range(_SEPARATOR_LINES), strict=False) if line]
        alike = widths.count(widths[0]) / len(widths)
        found[separator] = (widths[0] > 1, alike > 0.9, widths[0])
    return max(SEPARATORS, key=lambda separator: found[separator])


def _check_header(columns: tuple[str, ...], where: str) -> None:
    if len(columns) < 2:
        known = "commas, semicolons, tabs or |"
        raise InvalidValue(where, f"one column, {columns[0][:60]!r}", f"several columns, separated by {known}")
    twice = [name for name, count in Counter(columns).items() if count > 1]
    if twice:
        names = ", ".join(name or "(no name)" for name in twice)
        raise InvalidValue(f"{where}: names of columns", f"{names} more than once", "a name of its own for each column")
    values = [name for name in columns if is_value(name)]
    if values and columns != tuple(str(i) for i in range(len(columns))):
        allowed = "a first line with the names of the columns"
        raise InvalidValue(f"{where}: names of columns", ", ".join(values[:3]), allowed)


def is_value(name: str) -> bool:
    """Tell whether the name of a column is rather a value: a number with decimals, or a date with a time."""
    whole = name.replace(",", ".").replace("-", "", 1)
    return bool(name) and (_is_number(whole) or (name[:4].isdigit() and name[4:5] in ("-", "/") and len(name) > 7))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.lower() not in ("nan", "inf", "infinity")
