"""The citation file is as current as the package."""

import tomllib
from pathlib import Path

import yaml  # type: ignore[import-untyped, unused-ignore]

ROOT = Path(__file__).parents[1]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def test_the_citation_file_names_the_version_and_licence_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert CITATION["cff-version"] == "1.2.0"
    assert (CITATION["title"].lower(), CITATION["type"]) == (project["name"], "software")
    assert CITATION["version"] == project["version"]
    assert CITATION["license"] == project["license"]
    assert CITATION["message"]
    assert CITATION["authors"]


def test_the_paper_is_what_to_cite() -> None:
    paper = CITATION["preferred-citation"]
    assert [author["family-names"] for author in paper["authors"]] == ["Wu", "Mitra", "Chen", "Rao"]
    assert paper["title"] == "Decentralized Personalized Online Federated Learning"
    assert (paper["type"], paper["year"]) == ("conference-paper", 2023)
    assert paper["url"] == "https://arxiv.org/abs/2311.04817"
