"""What a search leaves in its folder."""

from pathlib import Path
from typing import Any, Final

import msgspec
import polars as pl
import tomli_w

from alphaedge.experiments.grid import nested
from alphaedge.files import replace_file
from alphaedge.report.charts import save as save_figure
from alphaedge.scoring import Score
from alphaedge.tuning.picture import picture
from alphaedge.tuning.tune import Tuned

JOURNAL: Final = "trials.journal"
_EDGE_NOTE: Final = "# For the edge.toml of every edge: these keys mean there what they mean in a simulation.\n\n"


def save(tuned: Tuned, folder: Path) -> None:
    """Write ``config.toml``, ``edge.toml``, ``summary.json``, ``trials.parquet`` and the picture (PNG and SVG)."""
    replace_file(folder / "config.toml", tuned.settings.toml().encode())
    replace_file(folder / "edge.toml", (_EDGE_NOTE + tomli_w.dumps(edge_settings(tuned))).encode())
    replace_file(folder / "summary.json", msgspec.json.format(msgspec.json.encode(summary(tuned)), indent=2))
    rows = [
        {"trial": t.number, **t.values, "score": t.score, "pruned": t.pruned, "seconds": t.seconds}
        for t in tuned.trials
    ]
    pl.DataFrame(rows, infer_schema_length=None).write_parquet(folder / "trials.parquet")
    for name in ("tune.png", "tune.svg"):
        save_figure(picture(tuned.trials, tuned.defaults, tuned.importances, tuned.method), folder / name)


def edge_settings(tuned: Tuned) -> dict[str, Any]:
    """The values that were found, as ``edge.toml`` has them: under ``model`` what a simulation has at the top.

    Defaults are there too: those of an edge may be others.
    """
    settings = tuned.settings
    learning = {
        "batch_size": settings.size,
        "rate": settings.model_rate,
        "local_steps": settings.local_steps,
        "id_rows": settings.row_optimizer,
        "id_rate": settings.id_rate,
    }
    exchange = {key: value for key, value in tuned.values.items() if key.startswith("method.")}
    return {"model": learning, **nested(exchange)}


def summary(tuned: Tuned) -> dict[str, Any]:
    """What was found, as plain values."""
    gain = tuned.gain
    return {
        "data": tuned.settings.data,
        "method": tuned.method,
        "part": tuned.part,
        "values": tuned.changes,
        "trials": len(tuned.trials),
        "pruned": sum(t.pruned for t in tuned.trials),
        "importances": tuned.importances,
        "on_part": _scores(tuned.on_part),
        "on_rest": _scores(tuned.on_rest),
        "gain": gain.mean if gain else None,
        "gain_ci95": gain.ci95 if gain else None,
        "times_bytes": tuned.bytes,
        "times_seconds": tuned.seconds,
    }


def _scores(pair: tuple[Score | None, Score | None]) -> dict[str, Any]:
    named = dict(zip(("tuned", "defaults"), pair, strict=True))
    means = {name: score.mean if score else None for name, score in named.items()}
    return means | {f"{name}_runs": score.runs if score else None for name, score in named.items()}
