"""A cell is computed again when any code changes that its score depends on, and only then."""

import shutil
from pathlib import Path

import grimp
import pytest

from alphaedge.experiments.source_hash import PACKAGE, source_files, source_hash


def copy(package: Path, folder: Path) -> Path:
    return Path(shutil.copytree(package, folder, ignore=shutil.ignore_patterns("__pycache__", "static")))


def module_file(module: str) -> Path:
    path = PACKAGE.parent.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@pytest.mark.parametrize("root", ["simulation.task", "simulation.workers.processes", "experiments.baselines"])
def test_every_module_that_computes_a_score_is_hashed(root: str) -> None:
    graph = grimp.build_graph("alphaedge", exclude_type_checking_imports=True, cache_dir=None)
    modules = {f"alphaedge.{root}", *graph.find_upstream_modules(f"alphaedge.{root}")}
    computing = {m for m in modules if not m.startswith("alphaedge.report")}  # reports draw what was computed
    assert len(computing) > 30
    assert {module_file(m) for m in computing} - set(source_files()) == set()


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("core/aggregation.py", True),
        ("core/new_package/new_module.py", True),
        ("experiments/baselines.py", True),
        ("errors.py", True),
        ("report/page.py", False),
        ("cli/reproduce.py", False),
    ],
)
def test_a_change_of_code_changes_the_hash_where_scores_depend_on_it(tmp_path: Path, file: str, counts: bool) -> None:
    original = copy(PACKAGE, tmp_path / "original")
    assert source_hash(copy(original, tmp_path / "same")) == source_hash(original)
    changed = copy(original, tmp_path / "changed")
    (changed / file).parent.mkdir(exist_ok=True)
    with (changed / file).open("a") as source:
        source.write("# changed\n")
    assert (source_hash(changed) != source_hash(original)) == counts


def test_a_file_that_moves_changes_the_hash(tmp_path: Path) -> None:
    original = copy(PACKAGE, tmp_path / "original")
    moved = copy(original, tmp_path / "moved")
    (moved / "core" / "fields.py").rename(moved / "core" / "moved_fields.py")
    assert source_hash(moved) != source_hash(original)
