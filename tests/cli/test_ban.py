"""``alphaedge ban``: rules in the policy files of one edge or several, and no others."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from alphaedge.cli import app
from alphaedge.edge.trust.policy import Member, Policy

BOSTON = Member("boston", "US")


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(app, ["ban", *map(str, args)], env={"COLUMNS": "200"})


@pytest.fixture
def configs(tmp_path: Path) -> list[Path]:
    """Two edges: one that names its policy file, one that does not."""
    texts = {"berlin": 'edge = "berlin"\npolicy = "../rules"\n', "bonn": 'edge = "bonn"\n'}
    paths = []
    for name, text in texts.items():
        (tmp_path / name).mkdir()
        paths.append(tmp_path / name / "edge.toml")
        paths[-1].write_text(text)
    (tmp_path / "rules").write_text("allow from=* to=*\n")
    return paths


def test_a_ban_is_written_to_the_policy_of_each_named_edge_and_can_be_undone(configs: list[Path]) -> None:
    files = [configs[0].parent.parent / "rules", configs[1].parent / "policy.txt"]
    each = [word for path in configs for word in ("--config", path)]
    result = run("boston", *each)
    assert result.exit_code == 0, result.output
    assert result.output.count("boston is now banned") == 2
    for file in files:
        assert Policy.parse(file.read_text()).ban(BOSTON) == "deny from=boston to=*"
    assert run("boston", *each).output.count("boston is banned already") == 2
    assert run("--list", *each).output.count(": boston") == 2
    assert run("boston", "--undo", *each).exit_code == 0
    assert [file.read_text() for file in files] == ["allow from=* to=*\n", ""]
    assert run("--list", *each).output.count("nobody is banned") == 2


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], ["EDGE", "--list"]),
        (["boston", "--list"], ["EDGE", "--list"]),
        (["a b"], ["edge", "'a b'", "letters"]),
        (["boston", "--undo"], ["edge", "'boston'", "there is none"]),
        (["boston", "--config", "none.toml"], ["config", "none.toml"]),
    ],
)
def test_a_mistake_is_one_line_that_names_the_field(configs: list[Path], args: list[str], words: list[str]) -> None:
    result = run(*args, *([] if "--config" in args else ["--config", configs[0]]))
    assert result.exit_code == 2
    for word in words:
        assert word in result.output
    assert (configs[0].parent.parent / "rules").read_text() == "allow from=* to=*\n"
