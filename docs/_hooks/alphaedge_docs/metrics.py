"""Every metric, from a registry with numbers in it."""

import tempfile
from pathlib import Path

from alphaedge.edge.serving.metrics import Metrics
from alphaedge.edge.store.status import LearnerStatus, PeerStatus, write
from alphaedge_docs.markdown import anchored, sentence, table

PARTS = ("le", "quantile")  # labels that belong to how Prometheus writes a histogram down


def reference() -> str:
    """A table for the server's metrics, for the learner's and for those of each peer."""
    groups: dict[str, list[tuple[str, str, str, str]]] = {"The server": [], "The learner": [], "Each other edge": []}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "status.json"
        page = Metrics(path, lambda: 0, lambda: 0.0)
        page.answered("infer", 200, 0.001)
        served = {family.name for family in page.registry.collect()}
        peers = {"boston": PeerStatus(region="US")}
        write(LearnerStatus(edge="berlin", region="DE", schema="0", started=0.0, peers=peers), path)
        for family in page.registry.collect():
            shown = family.name + ("_total" if family.type == "counter" else "")
            labels = sorted({label for sample in family.samples for label in sample.labels} - {*PARTS})
            row = (
                anchored("metric", shown),
                family.type,
                ", ".join(f"`{x}`" for x in labels),
                sentence(family.documentation),
            )
            where = "The server" if family.name in served else "Each other edge" if "peer" in labels else "The learner"
            groups[where].append(row)
    return "\n".join(
        f"## {title}\n\n" + table(("metric", "type", "labels", "meaning"), rows) for title, rows in groups.items()
    )
