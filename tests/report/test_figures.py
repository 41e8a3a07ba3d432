"""Figures show the numbers they were given."""

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from alphaedge.errors import InvalidValue
from alphaedge.report import figures
from alphaedge.report.charts import save
from alphaedge.report.styles import PALETTE, STYLES

SCORES = {"method": pl.String, "seed": pl.Int64, "edge": pl.Int64, "batch": pl.Int64, "time": pl.Float64}
SCORES |= {"score": pl.Float64}
WEIGHTS = {"method": pl.String, "seed": pl.Int64, "edge": pl.Int64, "aggregation": pl.Int64}
WEIGHTS |= {"time": pl.Float64, "peer": pl.Int64, "share": pl.Float64}
PULLS = {"method": pl.String, "seed": pl.Int64, "edge": pl.Int64, "peer": pl.Int64, "count": pl.Int64}
PULLS |= {"bytes": pl.Int64}


def scores(*rows: tuple[int, int, float, float | None], method: str = "alphaedge") -> pl.DataFrame:
    """Make a table from (seed, edge, time, score)."""
    full = [(method, seed, edge, place, time, score) for place, (seed, edge, time, score) in enumerate(rows)]
    return pl.DataFrame(full, schema=SCORES, orient="row")


def weights(*rows: tuple[int, int, int, float, dict[int, float]]) -> pl.DataFrame:
    """Make a table from (seed, edge, aggregation, time, shares)."""
    full = [("alphaedge", *row[:4], peer, share) for row in rows for peer, share in row[4].items()]
    return pl.DataFrame(full, schema=WEIGHTS, orient="row")


def pulls(counts: dict[tuple[int, int], int], seed: int = 0) -> pl.DataFrame:
    """Make a table from counts by (edge, peer)."""
    full = [("alphaedge", seed, edge, peer, count, 8 * count) for (edge, peer), count in counts.items()]
    return pl.DataFrame(full, schema=PULLS, orient="row")


def summary(
    per_edge: dict[str, list[float | None]], clusters: list[int] | None = None, names: list[str] | None = None
) -> dict[str, Any]:
    methods = {name: {"per_edge": values} for name, values in per_edge.items()}
    return {"metric": "AUC", "clusters": clusters, "names": names, "methods": methods}


def only(figure: Figure) -> Axes:
    return figure.axes[0]


def line(figure: Figure, name: str = "AlphaEdge") -> np.ndarray:
    [drawn] = [each for each in only(figure).get_lines() if each.get_label() == name]
    return np.asarray(drawn.get_xydata())


def band(figure: Figure) -> np.ndarray:
    return np.asarray(only(figure).collections[0].get_paths()[0].vertices)[:, 1]


def tick_labels(axes: Axes) -> list[str]:
    return [each.get_text() for each in axes.get_xticklabels()]


# scores over time


def test_a_point_is_the_mean_over_batches_then_edges_then_seeds() -> None:
    table = scores((0, 0, 0.1, 0.0), (0, 0, 0.2, 0.0), (0, 0, 0.3, 0.0), (0, 1, 0.1, 0.8), (1, 0, 0.1, 1.0))
    [[x, y]] = line(figures.scores_over_time(table, "AUC", bins=1))
    assert x == 0.5
    assert y == pytest.approx((0.4 + 1.0) / 2)


def test_a_batch_without_a_score_does_not_count() -> None:
    table = scores((0, 0, 0.1, 0.5), (0, 0, 0.2, None), (0, 0, 0.3, float("nan")), (0, 0, 0.9, None))
    figure = figures.scores_over_time(table, "AUC", bins=2)
    assert line(figure).tolist() == [[0.25, 0.5]]


def test_the_end_of_the_run_is_in_the_last_bin() -> None:
    figure = figures.scores_over_time(scores((0, 0, 0.0, 0.4), (0, 0, 1.0, 0.6)), "AUC", bins=4)
    assert line(figure).tolist() == [[0.125, 0.4], [0.875, 0.6]]


def test_with_several_seeds_the_band_is_students_interval_over_seeds() -> None:
    # Edges differ a lot, seeds hardly: an interval over edges would be far wider.
    table = scores(*((seed, edge, 0.5, 0.5 * edge + 0.1 * seed) for seed in range(3) for edge in range(2)))
    figure = figures.scores_over_time(table, "AUC", bins=1)
    half = 4.3027 * 0.1 / np.sqrt(3)
    assert [band(figure).min(), band(figure).max()] == pytest.approx([0.35 - half, 0.35 + half])
    assert "3 seeds" in only(figure).get_xlabel()


def test_with_one_seed_the_band_is_over_edges_and_says_so() -> None:
    table = scores((0, 0, 0.5, 0.2), (0, 1, 0.5, 0.4), (0, 2, 0.5, 0.6))
    figure = figures.scores_over_time(table, "AUC", bins=1)
    half = 4.3027 * 0.2 / np.sqrt(3)
    assert [band(figure).min(), band(figure).max()] == pytest.approx([0.4 - half, 0.4 + half])
    assert "3 edges (one seed)" in only(figure).get_xlabel()


@pytest.mark.parametrize(("count", "quantile"), [(2, 12.7062), (6, 2.571), (13, 2.179), (31, 2.042), (10**6, 1.96)])
def test_the_interval_uses_students_quantile(count: int, quantile: float) -> None:
    half = figures._half_interval(np.array([1.0]), np.array([float(count)]))
    assert half[0] * np.sqrt(count) == pytest.approx(quantile, rel=0.01)


def test_wide_bands_do_not_flatten_the_lines() -> None:
    rows = [(seed, 0, time, 0.5 + 0.1 * time + seed) for seed in range(2) for time in (0.1, 0.9)]
    figure = figures.scores_over_time(scores(*rows), "AUC", bins=2)
    low, high = only(figure).get_ylim()
    assert high - low < 2 * np.ptp(line(figure)[:, 1])


def test_the_legend_is_in_the_order_of_the_last_scores() -> None:
    parts = {"noagg": 0.3, "alphaedge": 0.2, "my-own": 0.4}
    table = pl.concat([scores((0, 0, 0.5, score), method=name) for name, score in parts.items()])
    legend = only(figures.scores_over_time(table, "AUC")).get_legend()
    assert legend is not None
    assert [each.get_text() for each in legend.get_texts()] == ["my-own", "NoAgg", "AlphaEdge"]


@pytest.mark.parametrize("bins", [0, 2.5])
def test_an_invalid_number_of_bins_is_refused(bins: Any) -> None:
    with pytest.raises(InvalidValue, match="bins"):
        figures.scores_over_time(scores((0, 0, 0.5, 0.5)), "AUC", bins=bins)


def test_methods_differ_in_colour_and_in_line_or_marker() -> None:
    styles = STYLES.values()
    assert len({each.colour for each in styles}) == len(styles)
    assert len({(each.marker, each.line, each.hollow) for each in styles}) == len(styles)


# weights

LATE = weights(
    (0, 0, 0, 0.1, {0: 0.9, 1: 0.1}),
    (0, 0, 1, 0.5, {0: 0.8, 2: 0.2}),
    (0, 0, 2, 0.9, {0: 0.7, 1: 0.3}),
    (0, 1, 0, 0.6, {1: 0.6, 2: 0.4}),
    (1, 0, 0, 0.1, {0: 0.2, 1: 0.8}),
)


def panels(figure: Figure) -> list[np.ndarray]:
    images = [axes.images[0] for axes in figure.axes if axes.images]
    return [np.asarray(image.get_array().filled(-1)) for image in images]  # type: ignore[union-attr]


def test_the_matrices_show_the_first_mix_of_the_first_seed_to_the_last() -> None:
    first, middle, last = panels(figures.weight_matrix(LATE, "alphaedge", moments=3))
    assert first.tolist() == [[0.9, 0.1, -1], [-1, 0.6, 0.4], [-1, -1, -1]]
    assert middle.tolist() == [[0.8, -1, 0.2], [-1, 0.6, 0.4], [-1, -1, -1]]
    assert last.tolist() == [[0.7, 0.3, -1], [-1, 0.6, 0.4], [-1, -1, -1]]


def test_a_single_moment_is_the_end() -> None:
    figure = figures.weight_matrix(LATE, "alphaedge", moments=1)
    assert [panel[0].tolist() for panel in panels(figure)] == [[0.7, 0.3, -1]]
    assert only(figure).get_title() == "last mix"


def test_no_more_moments_are_shown_than_there_are_mixes() -> None:
    assert len(panels(figures.weight_matrix(LATE, "alphaedge", moments=9))) == 3


def test_all_matrices_share_one_scale_and_one_colour_bar() -> None:
    figure = figures.weight_matrix(LATE, "alphaedge")
    *matrices, bar = figure.axes
    assert {axes.images[0].get_clim() for axes in matrices} == {(0.0, 0.9)}
    assert bar.get_ylabel() == "share in the mix"


def test_edges_are_sorted_by_cluster_in_rows_and_columns() -> None:
    table = weights((0, 0, 0, 0.1, {0: 0.9, 1: 0.1}), (0, 1, 0, 0.1, {1: 0.7, 2: 0.3}))
    figure = figures.weight_matrix(table, "alphaedge", clusters=[5, 2, 5])
    assert panels(figure)[0].tolist() == [[0.7, -1, 0.3], [0.1, 0.9, -1], [-1, -1, -1]]
    assert tick_labels(only(figure)) == ["1", "0", "2"]
    assert [each.get_text() for each in only(figure).texts] == ["cluster 2", "cluster 5"]
    assert [each.get_xdata()[0] for each in only(figure).get_lines()] == [0.5, 0]  # type: ignore[index]


@pytest.mark.parametrize(("n", "numbered"), [(30, 30), (31, 0)])
def test_edges_are_numbered_while_there_is_room(n: int, numbered: int) -> None:
    table = weights(*((0, edge, 0, 0.1, {edge: 1.0}) for edge in range(n)))
    assert len(tick_labels(only(figures.weight_matrix(table, "alphaedge")))) == numbered
    many = summary({"alphaedge": [0.5] * n})
    assert len(tick_labels(only(figures.score_per_edge(many)))) == numbered


NAMES = ["Oslo", "Llanfairpwllgwyngyll", "Rome"]


def test_edges_go_by_their_names_as_far_as_they_fit() -> None:
    shown = ["Oslo", "Llanfairpwl…", "Rome"]
    matrix = only(figures.weight_matrix(LATE, "alphaedge", names=NAMES))
    assert tick_labels(matrix) == shown
    assert [each.get_text() for each in matrix.get_yticklabels()] == shown
    dots = figures.score_per_edge(summary({"alphaedge": [0.1, 0.2, 0.3]}, names=NAMES))
    assert tick_labels(only(dots)) == shown
    circle = figures.who_pulls_from_whom(pulls({(0, 2): 5, (2, 1): 7}), "alphaedge", names=NAMES)
    assert [each.get_text() for each in only(circle).texts] == shown


# pulls


def arrows(figure: Figure) -> LineCollection:
    [lines] = [each for each in only(figure).collections if isinstance(each, LineCollection)]
    return lines


def positions(figure: Figure) -> np.ndarray:
    """Return the positions of the nodes, in the order of edges."""
    return np.array([np.asarray(each.get_xydata())[0] for each in only(figure).get_lines()])


def ends(figure: Figure) -> list[tuple[int, int]]:
    """Return the nodes nearest to the start and the end of each arrow."""

    def nearest(point: np.ndarray) -> int:
        return int(np.linalg.norm(positions(figure) - point, axis=1).argmin())

    return [(nearest(curve[0]), nearest(curve[-1])) for curve in arrows(figure).get_segments()]


def test_an_arrow_runs_from_the_peer_to_the_edge_that_pulls() -> None:
    figure = figures.who_pulls_from_whom(pulls({(0, 2): 5, (3, 1): 7}), "alphaedge")
    assert ends(figure) == [(2, 0), (1, 3)]


@pytest.mark.parametrize("clusters", [None, [1, 0, 1, 0]])
def test_width_is_the_share_of_what_the_edge_pulled(clusters: list[int] | None) -> None:
    # Edge 1 pulls more models, edge 0 a larger share.
    table = pulls({(0, 2): 3, (0, 3): 1, (1, 2): 50, (1, 3): 50})
    figure = figures.who_pulls_from_whom(table, "alphaedge", clusters=clusters)
    width = dict(zip(ends(figure), np.asarray(arrows(figure).get_linewidth()), strict=True))
    assert width[2, 0] > width[2, 1] == width[3, 1] > width[3, 0]


def test_rare_pulls_are_left_out_but_an_equal_split_is_not() -> None:
    rare = pulls({(0, 1): 999, (0, 2): 1})
    assert ends(figures.who_pulls_from_whom(rare, "alphaedge")) == [(1, 0)]
    equal = pulls({(0, peer): 1 for peer in range(1, 60)})
    assert len(ends(figures.who_pulls_from_whom(equal, "alphaedge"))) == 59


def test_an_adversary_is_a_cross_and_its_arrows_are_black() -> None:
    table = pulls({(0, 1): 1, (0, 2): 1})
    figure = figures.who_pulls_from_whom(table, "alphaedge", clusters=[1, 0, 1], adversaries=[2, 99])
    assert [each.get_marker() for each in only(figure).get_lines()] == ["o", "o", "X"]
    colour = dict(zip(ends(figure), map(to_hex, arrows(figure).get_colors()), strict=True))  # type: ignore[arg-type]
    assert colour == {(1, 0): PALETTE[0].lower(), (2, 0): "#000000"}


def test_only_the_first_seed_is_drawn() -> None:
    table = pl.concat([pulls({(0, 1): 1}, seed=3), pulls({(1, 0): 1}, seed=2)])
    figure = figures.who_pulls_from_whom(table, "alphaedge")
    assert ends(figure) == [(0, 1)]
    assert figure.get_suptitle() == "AlphaEdge, seed 2"


def test_many_edges_make_a_matrix_instead_of_a_circle() -> None:
    table = pulls({(edge, (edge + 1) % 61): 2 for edge in range(61)} | {(0, 5): 6})
    reverse = [60 - edge for edge in range(61)]
    figure = figures.who_pulls_from_whom(table, "alphaedge", clusters=reverse, adversaries=[60, 99])
    [matrix] = panels(figure)
    assert matrix[60, 59] == 0.25  # edge 0, the last one here, pulls a quarter from edge 1
    assert matrix[60, 55] == 0.75
    assert (matrix >= 0).sum() == 62
    [marks] = [each for each in only(figure).get_lines() if each.get_marker() == "^"]
    assert np.asarray(marks.get_xdata()).tolist() == [0]


# score per edge


def test_dots_are_at_the_scores_of_their_edges() -> None:
    figure = figures.score_per_edge(summary({"alphaedge": [0.9, 0.7, 0.8], "noagg": [0.6, 0.5, None]}))
    assert tick_labels(only(figure)) == ["1", "0", "2"]
    assert line(figure)[:, 1].tolist() == [0.7, 0.9, 0.8]
    assert line(figure, "NoAgg")[:2, 1].tolist() == [0.5, 0.6]
    assert np.isnan(line(figure, "NoAgg")[2, 1])


def test_edges_are_sorted_by_score_within_their_cluster() -> None:
    figure = figures.score_per_edge(summary({"alphaedge": [0.9, 0.1, 0.5, 0.6]}, clusters=[0, 1, 1, 0]))
    assert tick_labels(only(figure)) == ["3", "0", "1", "2"]


def test_dots_of_equal_scores_do_not_hide_each_other() -> None:
    figure = figures.score_per_edge(summary({name: [0.5] * 200 for name in STYLES}))
    x = np.concatenate([np.asarray(each.get_xdata()) for each in only(figure).get_lines()])
    assert len(np.unique(x.round(6))) == len(STYLES) * 200


# all of them


@pytest.mark.parametrize(
    "figure",
    [
        figures.scores_over_time(pl.DataFrame(schema=SCORES), "AUC"),
        figures.scores_over_time(scores((0, 0, 0.5, None)), "AUC"),
        figures.weight_matrix(pl.DataFrame(schema=WEIGHTS), "alphaedge", clusters=[0, 1]),
        figures.who_pulls_from_whom(pl.DataFrame(schema=PULLS), "alphaedge", adversaries=[0]),
        figures.who_pulls_from_whom(pulls({(0, 1): 0}), "alphaedge"),
        figures.score_per_edge(summary({"alphaedge": [None, None]})),
        figures.score_per_edge(summary({})),
    ],
)
def test_a_figure_with_nothing_to_show_says_so(figure: Figure) -> None:
    assert not figure.axes
    assert figure.get_suptitle().startswith(("No ", "AlphaEdge did not"))


@pytest.mark.filterwarnings("error", "ignore::ResourceWarning")  # files of earlier tests may be collected now
def test_figures_are_saved_without_pyplot_and_without_warnings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # importing it raises
    made = [
        figures.scores_over_time(scores((0, 0, 0.5, 0.5), (0, 1, 0.9, 0.7)), "AUC"),
        figures.weight_matrix(LATE, "alphaedge", clusters=[0, 1, 1]),
        figures.who_pulls_from_whom(pulls({(0, 1): 1, (1, 0): 1}), "alphaedge", clusters=[0, 1]),
        figures.who_pulls_from_whom(pulls({(0, 99): 1}), "alphaedge", adversaries=[3]),
        figures.score_per_edge(summary({"alphaedge": [0.5, None], "noagg": [None, None]})),
    ]
    for number, figure in enumerate(made):
        save(figure, tmp_path / f"{number}.png")
        assert (tmp_path / f"{number}.png").read_bytes().startswith(b"\x89PNG")
    buffer = io.BytesIO()
    save(made[0], buffer)
    assert buffer.getvalue().startswith(b"\x89PNG")
