"""A reader never sees a half-written version, and never waits for the writer."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alphaedge.edge.store.parameters import ParameterReader, ParameterVersion, ParameterWriter
from alphaedge.errors import ParametersError

NO_ROWS = torch.empty(0, dtype=torch.long)


def whole(
    version: ParameterVersion, rows: Sequence[Mapping[int, int]]
) -> tuple[dict[str, torch.Tensor], list[dict[int, int]]]:
    """Everything that a reader can see, as copies."""
    tensors = {name: t.clone() for name, t in version.tensors.items() if name != "entries"}
    return tensors, [dict(r) for r in rows]


def test_there_is_nothing_to_read_before_the_first_write(tmp_path: Path) -> None:
    with pytest.raises(ParametersError, match="not written any parameters yet"):
        ParameterReader(tmp_path, "s")


def test_a_reader_sees_what_was_written_last(tmp_path: Path) -> None:
    writer = ParameterWriter(tmp_path, "s")
    table = torch.zeros(5, 2)
    entries = [(0, 77, 0)]
    writer.write({"dense": torch.ones(3)}, {"t": table}, {"t": NO_ROWS}, entries, lambda: entries)
    reader = ParameterReader(tmp_path, "s")
    for step in range(1, 6):
        table[step % 5] = step
        new = [(0, 100 + step, step % 5)]
        entries += new
        writer.write(
            {"dense": torch.full((3,), step)},
            {"t": table},
            {"t": torch.tensor([step % 5])},
            new,
            partial(list, entries),
        )
        tensors, rows = reader.read(whole)
        assert torch.equal(tensors["dense"], torch.full((3,), float(step)))
        assert torch.equal(tensors["t"], table)
        assert rows[0][100 + step] == step % 5
    assert 77 not in reader.rows[0], "its row belongs to another key"


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sets(st.integers(0, 7)), st.booleans(), st.booleans()), max_size=12))
def test_any_sequence_of_changes_arrives(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[set[int], bool, bool]]
) -> None:
    """Rows that change at any time, tables that grow, and a writer that starts again."""
    folder = tmp_path_factory.mktemp("p")
    writer, table, entries = ParameterWriter(folder, "s"), torch.zeros(8, 1), list[tuple[int, int, int]]()
    writer.write({"d": torch.zeros(1)}, {"t": table}, {}, [], lambda: entries)
    reader = ParameterReader(folder, "s")
    for number, (rows, grow, again) in enumerate(steps, 1):
        if grow:
            table = torch.cat([table, torch.zeros(4, 1)])
        if again:
            writer = ParameterWriter(folder, "s")
        changed = torch.tensor(sorted(rows), dtype=torch.long)
        table[changed] = float(number)
        new = [(0, 1000 * number + row, row) for row in sorted(rows)]
        entries += new
        writer.write({"d": torch.full((1,), float(number))}, {"t": table}, {"t": changed}, new, partial(list, entries))
        if number % 2:  # a reader that sleeps now and then
            tensors, known = reader.read(whole)
            assert torch.equal(tensors["t"], table)
            assert tensors["d"].item() == number
            latest = {row: key for _, key, row in entries}
            assert (known[0] if known else {}) == {key: row for row, key in latest.items()}
    assert len(list(folder.glob("*.bin"))) == 1, "old files are gone"
    assert not list(folder.glob("*.part"))


def test_a_reader_of_the_previous_file_reads_only_new_entries(tmp_path: Path) -> None:
    """A large index is not read again in the midst of a prediction because a table has grown."""
    writer, entries = ParameterWriter(tmp_path, "s"), [(0, 10 + row, row) for row in range(1000)]
    writer.write({}, {"t": torch.zeros(1000, 1)}, {}, entries, lambda: entries)
    reader = ParameterReader(tmp_path, "s")
    reader.read(whole)
    index = reader.rows[0]
    fresh = [(0, 5000, 1000), (0, 5001, 3)]  # a new row, and one that changes hands
    every = [entry for entry in entries if entry[2] != 3] + fresh
    writer.write({}, {"t": torch.zeros(1001, 1)}, {}, fresh, lambda: every)
    reader.read(whole)
    assert reader.rows[0] is index
    assert index == {key: row for _, key, row in every}
    again = ParameterReader(tmp_path, "s")
    again.read(whole)
    assert again.rows[0] == index


def test_a_row_that_changes_its_key_twice(tmp_path: Path) -> None:
    writer, entries = ParameterWriter(tmp_path, "s"), [(0, 1, 0), (0, 4, 1)]  # A has row 0, D row 1
    writer.write({}, {"t": torch.zeros(2, 1)}, {}, entries, lambda: entries)
    reader = ParameterReader(tmp_path, "s")
    reader.read(whole)
    fresh = [(0, 7, 0), (0, 1, 1), (0, 8, 0)]  # X takes A's row, A takes D's, Y takes X's
    every = [(0, 8, 0), (0, 1, 1)]
    writer.write({}, {"t": torch.zeros(3, 1)}, {}, fresh, lambda: every)
    reader.read(whole)
    assert reader.rows[0] == {8: 0, 1: 1}


@pytest.mark.parametrize("left", [b"", bytes(8192)])
def test_an_incomplete_file_left_by_a_power_cut_is_replaced(tmp_path: Path, left: bytes) -> None:
    (tmp_path / "parameters-000000000007.bin").write_bytes(left)
    with pytest.raises(ParametersError, match="incomplete"):
        ParameterReader(tmp_path, "s")
    ParameterWriter(tmp_path, "s").write({"d": torch.ones(1)}, {}, {}, [], list)
    assert ParameterReader(tmp_path, "s").read(whole)[0]["d"].item() == 1.0


def test_a_reader_that_is_disturbed_reads_again(tmp_path: Path) -> None:
    writer = ParameterWriter(tmp_path, "s")
    writer.write({"d": torch.zeros(1)}, {}, {}, [], list)
    reader, seen = ParameterReader(tmp_path, "s"), []

    def slow(version: ParameterVersion, _: Sequence[Mapping[int, int]]) -> int:
        seen.append(version.number)
        if len(seen) == 1:  # two versions are written meanwhile: the second into the copy that is being read
            for _step in range(2):
                writer.write({"d": torch.zeros(1)}, {}, {}, [], list)
        return version.number

    assert reader.read(slow) == 3
    assert seen == [1, 3]


WRITER = """
import sys, torch
from pathlib import Path
from alphaedge.edge.store.parameters import ParameterWriter
writer, table = ParameterWriter(Path(sys.argv[1]), "s"), torch.zeros(2000, 8)
entries = []
everything = torch.arange(2000)
for number in range(1, 10**9):
    if number % 400 == 0:
        table = torch.zeros(2000 + number // 400, 8)
        everything = torch.arange(len(table))
    table.fill_(number)
    writer.write({"d": torch.full((5000,), float(number))}, {"t": table}, {"t": everything}, [], lambda: entries)
    if number == 5:
        print("ready", flush=True)
"""


def test_a_reader_sees_one_version_while_another_process_writes(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        reader = ParameterReader(tmp_path, "s")
        seen = [0.0]
        while len(seen) < 200:
            low, high = reader.read(
                lambda v, _: (
                    min(float(v.tensors["d"].min()), float(v.tensors["t"].min())),
                    max(float(v.tensors["d"].max()), float(v.tensors["t"].max())),
                )
            )
            assert low == high, "parts of two versions"
            assert low >= seen[-1], "an older version than before"
            seen += [low] if low > seen[-1] else []
    finally:
        process.kill()
        process.wait()
