"""The results of a simulation: a summary, tidy tables, pictures and a folder that holds them all."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, final

import msgspec
import polars as pl

from alphaedge.core.methods import Method
from alphaedge.data.stream import Dataset
from alphaedge.errors import InvalidValue, check_choice
from alphaedge.fleet_state import STATE_FILE
from alphaedge.simulation.batches import dates
from alphaedge.simulation.config import Settings
from alphaedge.simulation.run_result import PULLS, SCORES, WEIGHTS, RunResult
from alphaedge.simulation.summary import LOSS_NAMES, baseline_rows, method_row
from alphaedge.simulation.verdict import Facts, Verdict, judge

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@final
class Results:
    """What ``simulate`` returns. Grows while methods finish; ``interrupted`` says that some did not."""

    def __init__(
        self,
        settings: Settings,
        methods: Mapping[str, Method],
        data: Dataset,
        messages: list[str],
        given: Sequence[str] = (),
    ) -> None:
        self.settings, self.given = settings, given  # given: what came as objects, which no file can name
        self.methods = list(methods)
        self.data_name, self.task, self.metric = data.name, data.task, data.metric
        self.edges, self.clusters, self.names = len(data.streams), data.clusters, data.names
        self._edge_names, self._events = data.edge_names, [len(stream) for stream in data.streams]
        self._every = {name: method.aggregate_every for name, method in methods.items()}
        self._span = dates(data, settings.size) if settings.clock == "event-time" else None
        self._predicts = _predicts(data, self._span)
        self.messages = messages
        self.interrupted = False
        self._outcomes: dict[tuple[str, int], RunResult] = {}

    def add(self, outcomes: list[RunResult], messages: list[str]) -> None:
        """Take in finished runs."""
        for outcome in outcomes:
            self._outcomes[outcome.method, outcome.seed] = outcome
        self.messages += messages

    def outcomes(self, method: str | None = None) -> list[RunResult]:
        """Finished runs in the order of methods and seeds."""
        return [
            self._outcomes[key]
            for key in sorted(self._outcomes, key=lambda k: (self.methods.index(k[0]), k[1]))
            if method in (None, key[0])
        ]

    def summary(self) -> dict[str, Any]:
        """Means over batches, then honest edges, then seeds; plain values, as in ``summary.json``."""
        hostile = {str(o.seed): [e for e, honest in enumerate(o.honest) if not honest] for o in self.outcomes()}
        messages = list(self.messages)
        beyond = sum(o.beyond_start for o in self.outcomes())
        if beyond:
            messages.append(f"{beyond} pulls were staler than their peer was old: they got its initial model")
        if self.interrupted:
            missing = len(self.methods) * self.settings.runs - len(self._outcomes)
            messages.append(f"interrupted: {missing} of {len(self.methods) * self.settings.runs} runs are missing")
        return {
            "data": self.data_name,
            "task": self.task,
            "predicts": self._predicts,
            "metric": self.metric,
            "loss": LOSS_NAMES[self.task],
            "edges": self.edges,
            "names": list(self.names) if self.names is not None else None,
            "clusters": list(self.clusters) if self.clusters is not None else None,
            "adversaries": hostile,
            "interrupted": self.interrupted,
            "messages": messages,
            "methods": {m: method_row(runs, self.task) for m in self.methods if (runs := self.outcomes(m))},
            "baselines": baseline_rows(self.outcomes(), self.task),
            "verdict": verdict.plain() if (verdict := self.verdict()) else None,
        }

    def verdict(self, method: str | None = None) -> Verdict | None:
        """Say whether learning from each other pays; None unless a method and ``noagg`` were run with the same seed.

        method: what to compare with learning alone; the default is ``alphaedge``, or else the first that was run.
        """
        if method is not None:
            check_choice("method", method, self.methods)
        others = [m for m in self.methods if m != "noagg"]
        chosen = method or ("alphaedge" if "alphaedge" in others else next(iter(others), None))
        if chosen is None:
            return None
        rows = baseline_rows(self.outcomes(), self.task)
        facts = Facts(
            metric=self.metric,
            names=self._edge_names,
            events=self._events,
            size=self.settings.size,
            every=self._every[chosen],
            span=self._span,
            baselines={name: row["mean"] for name, row in rows.items() if row["mean"] is not None},
        )
        return judge(self.outcomes(chosen), self.outcomes("noagg"), facts)

    def _repr_html_(self) -> str:
        from alphaedge.report import simulation_report  # here, since worker processes never show anything

        return simulation_report.summary_html(self.summary())

    def _table(self, pick: Callable[[RunResult], pl.DataFrame], schema: Any) -> pl.DataFrame:
        """The tables of all runs in one, with the names of edges and peers beside their numbers if they have any."""
        whole = pl.concat([pick(o) for o in self.outcomes()]) if self._outcomes else pl.DataFrame(schema=schema)
        if self.names is None:
            return whole
        names = pl.Series(self.names, dtype=pl.String)
        numbers = [column for column in ("edge", "peer") if column in schema]
        named = whole.with_columns(names.gather(whole[number]).alias(f"{number}_name") for number in numbers)
        order = [[column, f"{column}_name"] if column in numbers else [column] for column in schema]
        return named.select(column for some in order for column in some)

    @property
    def scores(self) -> pl.DataFrame:
        """Tidy scores: method, seed, edge, batch, time (0 to 1), score (null where a batch has none).

        This table and the others name edges and peers in columns ``edge_name`` and ``peer_name`` if they have names.
        """
        return self._table(lambda o: o.scores, SCORES)

    @property
    def weights(self) -> pl.DataFrame:
        """Shares of each mix: method, seed, edge, aggregation, time, peer (the edge itself: its own model), share."""
        return self._table(lambda o: o.weights, WEIGHTS)

    @property
    def pulls(self) -> pl.DataFrame:
        """Who pulled from whom: method, seed, edge, peer (null: others, of whom tallies alone), count, bytes."""
        return self._table(lambda o: o.pulls, PULLS)

    @property
    def end_states(self) -> list[bytes]:
        """The state in which a fleet ended, if it was kept (``alphaedge.fleet_state``)."""
        return [o.end_state for o in self.outcomes() if o.end_state is not None]

    def plot(self) -> "Figure":
        """Score over time, one line a method; of the honest edges, as in the summary."""
        from alphaedge.report import figures  # here, since matplotlib is slow to load and worker processes never draw

        hostile = [(o.seed, e) for o in self.outcomes() for e, honest in enumerate(o.honest) if not honest]
        left_out = pl.DataFrame(hostile, schema={"seed": pl.Int64, "edge": pl.Int64}, orient="row").unique()
        return figures.scores_over_time(self.scores.join(left_out, on=["seed", "edge"], how="anti"), self.metric)

    def pictures(self) -> list[tuple[str, str, "Figure"]]:
        """(file name, title, figure) of everything worth looking at; the report knows how to read each."""
        from alphaedge.report import figures, styles

        summary = self.summary()
        made = [
            ("scores-over-time", "Score over time", self.plot()),
            ("scores-per-edge", "Score per edge", figures.score_per_edge(summary)),
        ]
        weights, pulls = self.weights, self.pulls.drop_nulls("peer")
        mixing = [m for m in self.methods if m in set(weights["method"].unique())]
        if mixing:
            lead = "alphaedge" if "alphaedge" in mixing else mixing[0]
            name, hostile = styles.style_of(lead).name, next(iter(summary["adversaries"].values()), list[int]())
            matrix = figures.weight_matrix(weights, lead, clusters=self.clusters, names=self.names)
            graph = figures.who_pulls_from_whom(
                pulls, lead, clusters=self.clusters, adversaries=hostile, names=self.names
            )
            made += [
                ("weights-over-time", f"Whose models {name} mixes, over time", matrix),
                ("pulls", f"Who pulls from whom with {name}", graph),
            ]
        return made

    def save(self, folder: Path | str) -> Path:
        """Write the results folder: summary.json, scores.parquet and others, config.toml, figures, report.html."""
        from alphaedge.report import charts, simulation_report

        folder = writable(folder)
        summary = self.summary()
        (folder / "summary.json").write_bytes(msgspec.json.format(msgspec.json.encode(summary), indent=2))
        self.scores.write_parquet(folder / "scores.parquet")
        self.weights.write_parquet(folder / "weights.parquet")
        self.pulls.write_parquet(folder / "pulls.parquet")
        config_toml = self._config_toml()
        (folder / "config.toml").write_text(config_toml, encoding="utf-8")
        for state in self.end_states:
            (folder / STATE_FILE).write_bytes(state)
        if self._outcomes:
            pictures = self.pictures()
            for name, _, figure in pictures:
                charts.save(figure, folder / f"{name}.png")
            simulation_report.write(
                folder / "report.html",
                summary=summary,
                figures=[(title, "", figure) for _, title, figure in pictures],
                config_toml=config_toml,
                title=f"AlphaEdge on {self.data_name}",
            )
        return folder

    def _config_toml(self) -> str:
        if not self.given:
            return self.settings.toml()
        objects = " and ".join(self.given)
        return (
            f"# This simulation was given its {objects} from Python: this file has its other settings only.\n"
            + self.settings.toml()
        )


def writable(folder: Path | str) -> Path:
    """Make a results folder, or say why it can't be one."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()  # has no name: several processes may try at once
    except OSError as error:
        raise InvalidValue("out", str(folder), f"a folder that can be written to ({error.strerror})") from error
    return folder


def _predicts(data: Dataset, span: tuple[float, float] | None) -> str:
    """What is predicted, in words: ``returned = yes, by shop; 15,000 events, 2024-01-02 to 2024-12-30``."""
    label, edge = data.columns.get("label", "the label"), data.columns.get("edge")
    what = f"{label} = {data.classes[1]}" if data.classes and data.classes != ("0", "1") else label
    when = ""
    if span is not None:
        first, last = (datetime.fromtimestamp(moment, UTC).date() for moment in span)
        when = f", {first} to {last}"
    by = f", by {edge}" if edge else ""
    return f"{what}{by}; {sum(len(stream) for stream in data.streams):,} events{when}"
