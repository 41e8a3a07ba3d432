"""Every metric of an edge, read from a registry that has a sample of each."""

import tempfile
from pathlib import Path

from alphaedge.edge.serving.metrics import Metrics
from alphaedge.edge.store.peer_status import PeerStatus
from alphaedge.edge.store.status import LearnerStatus, write_status
from tools.reference.markdown import sentence, table

HISTOGRAM_LABELS = ("le", "quantile")  # belong to the format, not to the metric


def section() -> str:
    """Three tables: the server's metrics, the learner's, and those per peer."""
    groups: dict[str, list[tuple[str, str, str, str]]] = {"The server": [], "The learner": [], "Per peer": []}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "status.json"
        metrics = Metrics(path, lambda: 0, lambda: 0.0)
        metrics.count_request("infer", 200, 0.001)
        served = {family.name for family in metrics.registry.collect()}
        peers, hits = {"boston": PeerStatus(region="US")}, {"boston": {"rate": 1}}
        write_status(
            LearnerStatus(edge="berlin", region="DE", schema="0", started=0.0, peers=peers, limit_hits=hits), path
        )
        for family in metrics.registry.collect():
            name = family.name + ("_total" if family.type == "counter" else "")
            labels = sorted({label for sample in family.samples for label in sample.labels} - {*HISTOGRAM_LABELS})
            group = "The server" if family.name in served else "Per peer" if "peer" in labels else "The learner"
            shown = ", ".join(f"`{label}`" for label in labels)
            groups[group].append((f"`{name}`", family.type, shown, sentence(family.documentation)))
    return "\n".join(
        f"## {title}\n\n" + table(("metric", "type", "labels", "meaning"), rows) for title, rows in groups.items()
    )
