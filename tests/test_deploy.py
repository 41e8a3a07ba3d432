"""The files in ``deploy/`` fit real edges: metrics, alerts, unit and container."""

import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped, unused-ignore]
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from alphaedge.cli import app
from alphaedge.edge.config import PeersConfig, ServeConfig, load
from alphaedge.edge.serving.metrics import ENDPOINTS, Metrics
from alphaedge.edge.store.peer_status import PeerStatus
from alphaedge.edge.store.status import LearnerStatus, write_status
from alphaedge.inference.feedback import FeedbackCounts

from .edge import processes
from .edge.nats_server import free_port
from .edge.processes import Edge, events, fleet_of, send, teach, tell, wait_for
from .edge.serving.test_metrics import heard, metrics

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "alphaedge.json").read_text(encoding="utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
RULES = DEPLOY / "prometheus" / "alerts.yml"
ALERTS = [rule for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]
SCRAPES = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
CONTAINER = (DEPLOY / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
UNIT = DEPLOY / "systemd" / "alphaedge@.service"

TARGET = {"edge", "instance", "job"}  # labels that Prometheus adds to every scraped metric
OWN_METRICS = {"up": TARGET}  # of Prometheus itself
GROUPING = r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)"
KEYWORDS = {"and", "or", "unless", "offset", "bool", "inf", "nan", "group_left", "group_right"}

Labels = dict[str, set[str]]  # of each metric


def without_strings(expression: str) -> str:
    return re.sub(r'"(?:\\.|[^"\\])*"', '""', expression)


def metric_names(expression: str) -> set[str]:
    """The metrics in a PromQL expression."""
    text = without_strings(expression)
    for other in (r"\{[^}]*\}", r"\[[^]]*\]", GROUPING):  # labels, ranges, and labels again
        text = re.sub(other, " ", text)
    found = re.findall(r"(?<![\w:.])[a-zA-Z_:][\w:]*+(?!\s*\()", text)  # a name before a parenthesis is a function
    return {name for name in found if name.lower() not in KEYWORDS}


def selectors(expression: str) -> list[tuple[str, str, str]]:
    """Metric, label and value of all selectors in a PromQL expression."""
    return [
        (name, label, value)
        for name, inside in re.findall(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}", expression)
        for label, value in re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"', inside)
    ]


def expressions() -> list[tuple[str, str, str]]:
    """Panel or alert, expression, and the text beside it that may name labels, for all expressions."""
    shown = [(panel["title"], t["expr"], t["legendFormat"]) for panel in PANELS for t in panel["targets"]]
    watched = [(rule["alert"], rule["expr"], " ".join(rule["annotations"].values())) for rule in ALERTS]
    return shown + watched


def program(name: str, package: str) -> str:
    """The path of a program. Tests that need a missing one are skipped; in CI they fail, so that it is noticed."""
    found = shutil.which(name)
    if found is None:
        absent = f"{name} is not installed (Debian: apt-get install --no-install-recommends {package})"
        if os.environ.get("CI"):
            pytest.fail(absent)
        pytest.skip(absent)
    return found


def promtool(*words: str | Path) -> None:
    found = subprocess.run([program("promtool", "prometheus"), *words], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    edge = Edge(tmp_path_factory.mktemp("deploy") / "edge")
    try:
        edge.start()
        yield edge
    finally:
        edge.end()


@pytest.fixture(scope="module")
def exported(running: Edge, tmp_path_factory: pytest.TempPathFactory) -> Labels:
    """The metrics that an edge exports after predictions and feedback, and those that it has with a peer and limits."""
    tell(running, send(running, events(20)))
    found = [(name, dict(labels)) for name, labels in metrics(running)]
    file = tmp_path_factory.mktemp("status") / "status.json"
    status = LearnerStatus(edge="berlin", region="DE", schema="s", started=0.0, peers={"boston": PeerStatus()})
    status.limit_hits = {"boston": {"rate": 1}}
    write_status(status, file)
    page_metrics = Metrics(file, lambda: 0, lambda: 0.0)
    page_metrics.count_refused("infer", "rate")
    page = page_metrics.render().decode()
    samples = [s for family in text_string_to_metric_families(page) for s in family.samples]
    found += [(s.name, s.labels) for s in samples]
    labels: Labels = {}
    for name, some in found:
        if not name.endswith("_created"):  # creation times, which the scrape configuration drops
            labels.setdefault(name, set()).update(some)
    return labels


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('sum by (edge) (rate(a_total{b=~"c{d}|e"}[5m] offset 1d)) / on (f) group_left b:c', {"a_total", "b:c"}),
        ('label_replace(up{job="x"} == 1, "to", "$1", "from_label", "(.+)") unless on (edge) other', {"up", "other"}),
        ("histogram_quantile(0.99, sum by (le) (rate(x_bucket[$__rate_interval]))) > 1e6 or vector(0)", {"x_bucket"}),
        ("60 * avg without (a, b) (y) and -z > bool 2", {"y", "z"}),
    ],
)
def test_metric_names_are_found_in_expressions(expression: str, expected: set[str]) -> None:
    assert metric_names(expression) == expected


def test_every_metric_in_an_expression_is_exported(exported: Labels) -> None:
    known = exported | OWN_METRICS
    wrong = [(where, name) for where, asked, _ in expressions() for name in metric_names(asked) if name not in known]
    assert not wrong
    assert {name for _, asked, _ in expressions() for name in metric_names(asked)} > set(OWN_METRICS)


def test_every_exported_metric_is_in_a_panel_or_an_alert(exported: Labels) -> None:
    asked = {name for _, expression, _ in expressions() for name in metric_names(expression)}
    shown = {re.sub(r"_(bucket|count|sum)$", "", name) for name in asked}
    forgotten = {name for name in exported if re.sub(r"_(bucket|count|sum)$", "", name) not in shown}
    assert len(exported) > 30
    assert not {name for name in forgotten if name.startswith("alphaedge_")}


def test_every_label_in_an_expression_exists(exported: Labels) -> None:
    known = exported | OWN_METRICS | {"alphaedge_edge_info": exported["alphaedge_edge_info"] | {"exported_edge"}}
    values = {
        "endpoint": {*ENDPOINTS, "other"},
        "result": set(FeedbackCounts.__struct_fields__),
        "job": {SCRAPES["scrape_configs"][0]["job_name"]},
    }
    for where, asked, text in expressions():
        for name, label, value in selectors(asked):
            assert label in known[name] | TARGET, f"{where}: {name} has no label {label}"
            if label in values:
                assert set(value.split("|")) <= values[label], f"{where}: {label} is never {value}"
        there = TARGET.union(*(known[name] for name in metric_names(asked)))
        grouped = re.findall(r"\w+", " ".join(re.findall(GROUPING, without_strings(asked))))
        written = re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", text)
        assert set(grouped) | set(written) <= there, where


def test_every_panel_has_a_description_and_a_unit() -> None:
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert max(Counter(panel["title"] for panel in PANELS).values()) == 1
    for panel in PANELS:
        assert panel["title"], panel["id"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        for asked in (panel, *panel["targets"]):
            assert asked["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, panel["title"]
        for target in panel["targets"]:
            assert 'edge=~"$edge"' in target["expr"], panel["title"]
            assert len(panel["targets"]) == 1 or target["legendFormat"], panel["title"]


def test_panels_do_not_overlap_and_are_large_enough() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    for place in places:
        assert place["x"] >= 0
        assert place["x"] + place["w"] <= 24
    for panel in PANELS:
        assert panel["gridPos"]["w"] >= (4 if panel["type"] == "stat" else 8), panel["title"]
        assert panel["gridPos"]["h"] >= (4 if panel["type"] == "stat" else 6), panel["title"]
    for a, b in itertools.combinations(places, 2):
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        above = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert beside or above, (a, b)


def test_the_dashboard_has_a_fixed_address_and_variables_for_source_and_edges() -> None:
    assert re.fullmatch(r"[a-z-]{1,40}", DASHBOARD["uid"])
    source, edge = DASHBOARD["templating"]["list"]
    assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")
    assert (edge["name"], edge["multi"], edge["includeAll"]) == ("edge", True, True)
    assert edge["datasource"]["uid"] == "${datasource}"
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    first = ["At a glance", "Traffic", "Learning", "Peers", "Hand-overs and aggregations"]
    assert rows == [*first, "Trust", "Identity", "Privacy"]


def test_every_alert_has_a_duration_a_severity_the_edge_and_a_description() -> None:
    assert max(Counter(rule["alert"] for rule in ALERTS).values()) == 1
    for rule in ALERTS:
        assert re.fullmatch(r"AlphaEdge[A-Z][A-Za-z]+", rule["alert"])
        assert rule["for"], rule["alert"]
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), rule["alert"]
        if not rule["expr"].startswith("absent("):  # the name of an absent edge is unknown
            assert "{{ $labels.edge }}" in rule["annotations"]["summary"], rule["alert"]
        assert len(rule["annotations"]["description"]) > 80, rule["alert"]


def test_every_target_of_the_example_has_the_label_edge() -> None:
    (job,) = SCRAPES["scrape_configs"]
    assert job["authorization"]["credentials_file"]
    for some in job["static_configs"]:
        assert set(some["labels"]) == {"edge"}, "a label region would replace that of peer metrics"


def test_prometheus_accepts_the_rules_and_the_configuration(tmp_path: Path) -> None:
    promtool("check", "rules", RULES)
    token, copy = tmp_path / "token", tmp_path / "prometheus.yml"
    token.write_text("secret")
    shutil.copy(RULES, tmp_path)
    (job,) = SCRAPES["scrape_configs"]
    authorised = job | {"authorization": job["authorization"] | {"credentials_file": str(token)}}
    copy.write_text(yaml.safe_dump(SCRAPES | {"scrape_configs": [authorised]}))
    promtool("check", "config", copy)


def test_alerts_fire_when_they_should_and_only_then() -> None:
    tests = (RULES.parent / "alerts_test.yml").read_text(encoding="utf-8")
    for rule in ALERTS:
        assert f'alertname="{rule["alert"]}"' in tests, f"no test in which {rule['alert']} fires"
    promtool("test", "rules", RULES.parent / "alerts_test.yml")


def check_command(words: list[str], folder: Path) -> None:
    """Check that the command line accepts these words: it fails only because the configuration file is missing."""
    place = words.index("--config") + 1
    missing = str(folder / "none.toml")
    found = CliRunner().invoke(app, [*words[:place], missing, *words[place + 1 :]])
    assert "none.toml" in found.output.replace("\n", ""), found.output
    assert "option" not in found.output.lower(), found.output


def listed(instruction: str) -> list[str]:
    """The list after an instruction of the Containerfile."""
    (found,) = re.findall(rf"^{instruction}.*?(\[.*\])$", CONTAINER, flags=re.MULTILINE)
    return [str(word) for word in json.loads(found)]


def test_unit_and_container_use_valid_commands(tmp_path: Path) -> None:
    (command,) = re.findall(r"^ExecStart=(.*)$", UNIT.read_text(encoding="utf-8"), flags=re.MULTILINE)
    alphaedge, *words = shlex.split(command)
    assert alphaedge == "/opt/alphaedge/bin/alphaedge"
    assert "/etc/alphaedge/%i/edge.toml" in words
    check_command(words, tmp_path)
    assert listed("ENTRYPOINT") == ["alphaedge"]
    assert listed("HEALTHCHECK")[-1] in listed("CMD")
    check_command(listed("CMD"), tmp_path)
    with pytest.raises(AssertionError):
        check_command([*words, "--no-such-option"], tmp_path)


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """Skipped even in CI: without systemd the unit is not needed."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    installed = UNIT.read_text(encoding="utf-8").replace("/opt/alphaedge/bin/alphaedge", sys.executable)
    (tmp_path / UNIT.name).write_text(installed)
    found = subprocess.run([analyze, "verify", str(tmp_path / UNIT.name)], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert "alphaedge" not in found.stderr  # it only warns about unknown keys, and exits with 0


def test_the_unit_lets_the_learner_lower_its_priority() -> None:
    lines = [line for line in UNIT.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    filters = [line for line in lines if line.startswith("SystemCallFilter=")]
    assert filters == ["SystemCallFilter=@system-service", "SystemCallFilter=~@privileged"], "@resources must stay"
    assert not any(line.startswith("MemoryDenyWriteExecute") for line in lines), "torch generates machine code"
    for hardened in ("NoNewPrivileges=yes", "ProtectSystem=strict", "User=alphaedge", "StateDirectory=alphaedge/%i"):
        assert hardened in lines


def test_the_container_copies_existing_files_and_exposes_the_default_ports() -> None:
    ignored = (DEPLOY / "Containerfile.dockerignore").read_text(encoding="utf-8").split("\n")
    taken = [line for line in CONTAINER.splitlines() if line.startswith("COPY ") and "--from" not in line]
    sources = [word for line in taken for word in line.split()[1:-1]]
    assert {"constraints.txt", "src"} < set(sources)
    for source in sources:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored, f"{source} is not in the build's context"
    assert f"EXPOSE {ServeConfig().port} {PeersConfig().port}" in CONTAINER
    assert re.search(r"^USER [1-9]", CONTAINER, flags=re.MULTILINE)
    assert re.search(r"^torch==", (ROOT / "constraints.txt").read_text(encoding="utf-8"), flags=re.MULTILINE)


def health(config: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, str(DEPLOY / "healthcheck.py"), str(config)]
    return subprocess.run(words, capture_output=True, text=True)


def test_the_health_check_detects_an_edge_that_does_not_answer(running: Edge, tmp_path: Path) -> None:
    config, port = tmp_path / "edge.toml", running.url.rpartition(":")[2]
    config.write_text(f'[serve]\nhost = "0.0.0.0"\nport = {port}\n')
    assert health(config).returncode == 0
    config.write_text(f"[serve]\nport = {free_port()}\n")
    found = health(config)
    assert found.returncode == 1
    assert "refused" in found.stderr
    config.write_text(f'[serve]\nport = {port}\ncertificate = "api.pem"\n')
    assert health(config).returncode == 1, "it uses TLS if there is a certificate"


def test_the_edges_of_the_example_are_ready_to_start_after_prepare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the script and the configurations of compose.yaml, laid out as its volumes."""
    folder, tools = tmp_path / "fleet", tmp_path / "tools"
    folder.mkdir()
    tools.mkdir()
    # The commands of the script are recorded, and run below: starting Python for each would take seconds.
    (tools / "alphaedge").write_text('#!/bin/sh\necho "$@" >> "$(dirname "$0")/asked"\n')
    (tools / "alphaedge").chmod(0o755)
    path = os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]])
    for _ in range(2):  # the second time it changes nothing
        script = ["sh", str(DEPLOY / "compose" / "prepare.sh"), str(folder)]
        subprocess.run(script, check=True, env=os.environ | {"PATH": path})
    commands = (tools / "asked").read_text().splitlines()
    assert len(commands) == 4
    monkeypatch.chdir(folder)
    for command in commands:
        found = CliRunner().invoke(app, shlex.split(command))
        assert found.exit_code == 0, found.output
    edges = {name: service for name, service in COMPOSE["services"].items() if name != "prepare"}
    assert len(edges) == 3
    schemas = set()
    for name, service in edges.items():
        mounts = dict(volume.split(":")[1::-1] for volume in service["volumes"])
        assert mounts == {
            "/etc/alphaedge/edge.toml": f"./compose/{name}.toml",
            "/etc/alphaedge/fleet": "fleet",
            "/data": name,
        }
        shutil.copy(DEPLOY / mounts["/etc/alphaedge/edge.toml"], tmp_path / "edge.toml")
        found = CliRunner().invoke(app, ["edge", "check", "--config", str(tmp_path / "edge.toml")])
        assert found.exit_code == 0, found.output
        config = load(tmp_path / "edge.toml")
        assert (config.edge, config.data) == (name, "/data")
        assert {seed.rpartition(":")[0] for seed in config.peers.seeds} <= set(edges)
        schemas.add(config.model)
    assert len(schemas) == 1, "edges with different models do not mix"


class TokenEdge(Edge):
    """An edge whose callers send the token."""

    def post(self, path: str, body: bytes | dict[str, Any], **headers: str) -> dict[str, Any]:
        return super().post(path, body, Authorization="Bearer example-token", **headers)


@pytest.mark.long
def test_a_real_prometheus_returns_data_for_every_panel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the configuration of the example, except for addresses and intervals, and two edges that are peers."""
    server = program("prometheus", "prometheus")
    monkeypatch.setattr(processes, "Edge", TokenEdge)
    (tmp_path / "token").write_text("example-token\n")
    serve = {"port": 0, "token": "../token"}
    with fleet_of(tmp_path, [("berlin", "DE"), ("boston", "US")], serve=serve) as (berlin, boston):
        (job,) = SCRAPES["scrape_configs"]
        scrape = job | {
            "scheme": "http",
            "scrape_interval": "1s",
            "scrape_timeout": "1s",
            "authorization": job["authorization"] | {"credentials_file": str(tmp_path / "token")},
            "static_configs": [
                {"targets": [edge.url.removeprefix("http://")], "labels": {"edge": edge.folder.name}}
                for edge in (berlin, boston)
            ],
        }
        config = SCRAPES | {"rule_files": [str(RULES)], "scrape_configs": [scrape]}
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config | {"global": {"evaluation_interval": "1s"}}))
        address = f"127.0.0.1:{free_port()}"
        words = [f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/tsdb"]
        with (tmp_path / "prometheus.log").open("w") as log:
            process = subprocess.Popen([server, *words, f"--web.listen-address={address}"], stderr=log, stdout=log)
        try:
            asked = [(panel["title"], at_speed(t["expr"])) for panel in PANELS for t in panel["targets"]]

            def empty() -> list[tuple[str, str]]:
                found = {e: query(address, "query", query=e)["result"] for _, e in asked}
                return [(where, e) for where, e in asked if all(one["value"][1] == "NaN" for one in found[e])]

            def shown() -> bool:
                for edge in (berlin, boston):
                    teach(edge, 1, seed=0)
                return heard(berlin, "boston") and not empty()

            wait_for(lambda: answers(address), "Prometheus to answer")
            try:
                wait_for(shown, "data for every panel")
            except AssertionError:
                raise AssertionError(f"no data for {empty()}") from None
            assert len(evaluated(address)) == len(ALERTS)
            wait_for(lambda: all(r["health"] == "ok" for r in evaluated(address)), "every rule to be evaluated")
            firing = [r["name"] for r in evaluated(address) if r["state"] == "firing"]
            assert not firing, "two healthy edges fire no alert"
        finally:
            process.kill()
            process.wait()


def at_speed(expression: str) -> str:
    """An expression over seconds instead of hours, without a threshold of 0."""
    fast = expression.replace("$edge", ".+").replace("$__rate_interval", "10s").replace("[1h]", "[10s]")
    return fast.replace("offset 1h", "offset 3s").replace(" > 0", "")


def query(address: str, what: str, **parameters: str) -> Any:
    url = f"http://{address}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)["data"]


def evaluated(address: str) -> list[dict[str, Any]]:
    return [rule for group in query(address, "rules")["groups"] for rule in group["rules"]]


def answers(address: str) -> bool:
    try:
        return bool(query(address, "rules")["groups"])
    except OSError:
        return False
