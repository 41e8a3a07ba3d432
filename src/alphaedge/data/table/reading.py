"""From files to one lazy frame. CSV is read as text: what it means is found later, as for text in Parquet."""

import glob
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, final

import polars as pl

from alphaedge.data.table.dialect import read_decoded, read_sample
from alphaedge.errors import InvalidValue

GUESS_ROWS: Final = 100_000  # read for a guess
_FIRST_BYTES: Final = b"PAR1"  # of a Parquet file
_FILES: Final = "a CSV or Parquet file that is there, or a pattern such as 'data/*.parquet'"


@final
@dataclass(frozen=True)
class Source:
    """A table to read from.

    name: for messages. columns: all that there are. head: the first rows of those that may be used; whole: whether
    these are all rows. reading: how files are written, if not as plain CSV or Parquet.
    """

    name: str
    columns: tuple[str, ...]
    open: Callable[[], pl.LazyFrame]
    head: pl.DataFrame
    whole: bool
    reading: str = ""

    @cached_property
    def scan(self) -> pl.LazyFrame:
        """All rows. Files that are compressed, or not UTF-8, are brought into memory for this."""
        return self.open()

    def collect(self, plan: pl.LazyFrame) -> pl.DataFrame:
        """Run a query on the table."""
        with refused(self.name):
            return plan.collect(engine="streaming")


@contextmanager
def refused(name: str) -> Iterator[None]:
    """Turn what polars says of an unreadable table into one line."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        if "utf-8" in reason:
            reason = "text that is not UTF-8, far from its start: save it as UTF-8"
        allowed = "a readable CSV or Parquet file"
        if "more fields" in reason:
            reason = "a row with more values than the header has names"
            allowed += "; put text that contains the separator in quotes"
        raise InvalidValue(f"table: file {name}", reason, allowed) from error


def find_files(file: str) -> list[Path]:
    """Return the files that a path or a pattern names, in the order of their names."""
    path = Path(file)
    if path.is_dir():
        raise InvalidValue("table: file", file, f"a file, or a pattern such as '{path / '*.csv'}'")
    files = [path] if path.is_file() else sorted(Path(p) for p in glob.glob(file, recursive=True) if Path(p).is_file())
    if not files:
        raise InvalidValue("table: file", file, _FILES)
    return files


def open_files(file: str, used: Sequence[str] | None = None) -> Source:
    """Open a table: a file, or several of one kind with the same columns. used: the columns that may be used."""
    files = find_files(file)
    rows = max(1, GUESS_ROWS // len(files))
    opened = [_open(path, rows, used) for path in files]
    _check_same_columns(files, opened)
    names = opened[0].head.columns

    def scan() -> pl.LazyFrame:
        with refused(file):
            return pl.concat([part.scan.select(names) for part in opened], how="vertical_relaxed")

    with refused(file):
        head = pl.concat([part.head.select(names) for part in opened], how="vertical_relaxed")
    readings = dict.fromkeys(part.reading for part in opened if part.reading)
    return Source(file, opened[0].columns, scan, head, all(part.whole for part in opened), "; ".join(readings))


def open_frame(frame: object, name: str) -> Source:
    """Open a data frame of polars, or of any library that speaks Arrow's or pandas's language."""
    with refused(name):
        scan = frame if isinstance(frame, pl.LazyFrame) else _to_polars(frame).lazy()
        head = scan.head(GUESS_ROWS + 1).collect()
    return Source(name, tuple(head.columns), lambda: scan, head.head(GUESS_ROWS), len(head) <= GUESS_ROWS)


def _open(path: Path, rows: int, used: Sequence[str] | None) -> Source:
    with path.open("rb") as file:
        parquet = file.read(4) == _FIRST_BYTES
    if not parquet:
        return _open_csv(path, rows, used)
    with refused(str(path)):
        scan = pl.scan_parquet(path)
        columns = tuple(scan.collect_schema())
        head = scan.select(_kept(columns, used)).head(rows + 1).collect()
    return Source(str(path), columns, lambda: scan, head.head(rows), len(head) <= rows)


def _open_csv(path: Path, rows: int, used: Sequence[str] | None) -> Source:
    if path.suffix.lower() in (".parquet", ".pq"):
        raise InvalidValue(f"table: file {path}", "data that is not Parquet", "a whole Parquet file: fetch it again")
    sample = read_sample(path)
    dialect = sample.dialect
    options: dict[str, Any] = {
        "separator": dialect.separator,
        "infer_schema": False,
        "new_columns": list(dialect.columns),
    }
    with refused(str(path)):
        first = pl.scan_csv(sample.text.encode(), **options)
        head = first.select(_kept(dialect.columns, used)).head(rows + 1).collect()
    whole = sample.whole and len(head) <= rows

    def scan() -> pl.LazyFrame:
        return pl.scan_csv(path if dialect.plain else read_decoded(path, dialect), **options)

    return Source(str(path), dialect.columns, scan, head.head(rows), whole, dialect.describe())


def _kept(columns: Sequence[str], used: Sequence[str] | None) -> list[str]:
    return [c for c in columns if used is None or c in used]


def _check_same_columns(files: Sequence[Path], opened: Sequence[Source]) -> None:
    columns, first = opened[0].columns, opened[0].head.schema
    for path, part in zip(files[1:], opened[1:], strict=True):
        if other := [c for c in (*columns, *part.columns) if (c in columns) != (c in part.columns)]:
            allowed = f"the columns of {files[0]}: {', '.join(columns)}"
            missing = [f"no {c}" if c in columns else f"{c} besides" for c in other]
            raise InvalidValue(f"table: columns of {path}", ", ".join(missing), allowed)
        for column, dtype in first.items():
            found = part.head.schema[column]
            if found != dtype and not (found.is_numeric() and dtype.is_numeric()):
                raise InvalidValue(f"table: column {column} of {path}", str(found), f"{dtype}, as in {files[0]}")


def _to_polars(frame: Any) -> pl.DataFrame:
    if isinstance(frame, pl.DataFrame):
        return frame
    if hasattr(frame, "__arrow_c_stream__"):
        try:
            return pl.DataFrame(frame)
        except ImportError:  # a pandas without pyarrow
            pass
    if hasattr(frame, "__dataframe__") and hasattr(frame, "columns"):
        return pl.DataFrame([pl.Series(str(name), frame[name].tolist(), strict=False) for name in frame.columns])
    raise InvalidValue("frame", type(frame).__name__, "a data frame of polars, pandas or pyarrow")
