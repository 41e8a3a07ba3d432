"""The notebooks in ``examples/`` run from top to bottom and show what they promise."""

import json
import os
import shutil
import sys
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode
from typer.testing import CliRunner

from alphaedge.cli import app

from .inventory import ROOT

EXAMPLES = ROOT / "examples"
NOTEBOOKS = sorted(path.name for path in EXAMPLES.glob("*.ipynb"))


def read(name: str) -> NotebookNode:
    return nbformat.read(EXAMPLES / name, as_version=4)


class Run:
    """A notebook after its run in a folder of its own, by this interpreter."""

    def __init__(self, name: str, folder: Path) -> None:
        shutil.copy(EXAMPLES / "shops.csv", folder)
        kernel = folder / "jupyter" / "kernels" / "tested"
        kernel.mkdir(parents=True)
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        spec = {"argv": command, "display_name": "tested", "language": "python"}
        (kernel / "kernel.json").write_text(json.dumps(spec))
        self.folder, self.cells = folder, read(name)
        # Through files, as another process might take a free port before the kernel does.
        manager = AsyncKernelManager(kernel_name="tested", transport="ipc", ip=str(folder / "kernel"))
        client = NotebookClient(self.cells, km=manager, timeout=240, resources={"metadata": {"path": str(folder)}})
        client.execute()

    def shown(self, kind: str) -> list[str]:
        """All that the cells show of a kind, such as text/html."""
        outputs = [output for cell in self.cells.cells for output in cell.get("outputs", [])]
        return [output["data"][kind] for output in outputs if kind in output.get("data", {})]


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where notebooks run; Jupyter finds its kernel there, and nothing of the user's."""
    folder = tmp_path_factory.mktemp("nb")
    for name in ("JUPYTER_PATH", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(folder / "jupyter"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.delenv("MPLBACKEND", raising=False)
    return folder


def test_a_table_gets_a_verdict_pictures_and_a_fleet(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run("own-table.ipynb", folder)
    assert any("Learning from each other pays" in html for html in run.shown("text/html"))
    assert any("Gdansk" in html and "with_peers" in html for html in run.shown("text/html"))
    assert len(run.shown("image/png")) == 3
    monkeypatch.chdir(folder)
    commands = [line for cell in run.cells.cells for line in cell.source.splitlines() if line.startswith("alphaedge ")]
    assert commands == ["alphaedge fleet init --from results/shops --out fleet", "alphaedge fleet up fleet"]
    made = CliRunner().invoke(app, commands[0].split()[1:])
    assert made.exit_code == 0, made.output
    assert (folder / "fleet" / "gdansk" / "edge.toml").is_file()


def test_a_model_of_ones_own_is_compared_with_the_default(folder: Path) -> None:
    run = Run("own-model.ipynb", folder)
    assert any("default" in html and "own" in html for html in run.shown("text/html"))
    assert "over learning alone" in run.shown("text/html")[-1]
    assert run.shown("image/png")


def test_a_rule_of_ones_own_is_checked_and_compared(folder: Path) -> None:
    run = Run("own-rule.ipynb", folder)
    assert any("median" in html and "noagg" in html for html in run.shown("text/html"))
    assert "over learning alone" in run.shown("text/html")[-1]
    assert run.shown("image/png")


def test_every_notebook_has_a_test() -> None:
    assert NOTEBOOKS == ["own-model.ipynb", "own-rule.ipynb", "own-table.ipynb"]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_stored_without_outputs_and_without_traces_of_a_machine(name: str) -> None:
    notebook = read(name)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None)
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    assert not [place for place in ("/home/", "/tmp/", "/Users/", f"{Path.home()}/", f"{ROOT}/") if place in text]
    assert set(notebook.metadata) == {"kernelspec", "language_info"}


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_links_of_a_notebook_lead_to_files(name: str) -> None:
    links = [part.partition(")")[0] for cell in read(name).cells for part in cell.source.split("](")[1:]]
    assert links
    assert all((EXAMPLES / link).is_file() for link in links)
