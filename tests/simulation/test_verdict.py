"""A verdict says what the runs say, on what it rests, and what to do where it is weak."""

from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaedge.scoring import interval95
from alphaedge.simulation.run_result import PULLS, SCORES, WEIGHTS, RunResult
from alphaedge.simulation.verdict import Facts, Verdict, conclude, judge
from alphaedge.simulation.verdict_words import remedy

JANUARY = 1_735_689_600.0  # the first of January 2025, in seconds since 1970
DAY = 86_400.0
NAMES = ["Oslo", "Rome", "Bonn"]


def run(
    method: str,
    scores: Sequence[Sequence[float]],
    *,
    seed: int = 0,
    rounds: int = 40,
    honest: Sequence[bool] = (True, True, True),
    first_sight: Sequence[float | None] = (None, None, None),
    pulled: int = 1000,
) -> RunResult:
    """A run with these scores of the batches of each edge, spread evenly over the run."""
    rows = [
        (method, seed, edge, batch, batch / (len(own) - 1), score)
        for edge, own in enumerate(scores)
        for batch, score in enumerate(own)
    ]
    edges = range(len(scores)) if method != "noagg" else []
    mixes = [(method, seed, e, number, 0.5, e, 1.0) for e in edges for number in range(rounds)]
    pulls = [(method, seed, e, (e + 1) % 3, 1, pulled) for e in edges]
    return RunResult(
        method=method,
        seed=seed,
        scores=pl.DataFrame(rows, schema=SCORES, orient="row"),
        weights=pl.DataFrame(mixes, schema=WEIGHTS, orient="row"),
        pulls=pl.DataFrame(pulls, schema=PULLS, orient="row"),
        per_edge=[sum(own) / len(own) for own in scores],
        pooled=[None] * len(scores),
        losses=[None] * len(scores),
        first_sight=list(first_sight),
        honest=list(honest),
        stopped=0,
        bytes=(0, 0, pulled * len(edges)),
        beyond_start=0,
        edge_batches=0,
        seconds=1.0,
        baselines={},
    )


def facts(**changes: Any) -> Facts:
    known: dict[str, Any] = {
        "metric": "AUC",
        "names": NAMES,
        "events": [2000, 4000, 6000],
        "size": 10,
        "every": 10,
        "span": None,
        "baselines": {},
    }
    return Facts(**known | changes)


def flat(*levels: float) -> list[list[float]]:
    return [[level] * 4 for level in levels]


def judged(ours: Sequence[RunResult], alone: Sequence[RunResult], **changes: Any) -> Verdict:
    found = judge(ours, alone, facts(**changes))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("gain", "ci95", "rounds", "says"),
    [
        (0.01, 0.005, 40, "pays"),
        (0.01, 0.005, 3, "pays"),
        (0.01, 0.01, 40, "can't tell"),
        (0.01, None, 40, "can't tell"),
        (None, None, 40, "can't tell"),
        (-0.01, 0.005, 40, "does not pay"),
        (0.0005, 0.0001, 40, "does not pay"),  # sure, and of no use
        (0.0, 0.0, 40, "does not pay"),
        (0.0, 0.0, 3, "can't tell"),  # nobody has had the time to help
    ],
)
def test_the_conclusion_follows_from_the_interval(
    gain: float | None, ci95: float | None, rounds: int, says: str
) -> None:
    assert conclude(gain, ci95, rounds) == says


def test_with_three_seeds_the_interval_is_over_seeds() -> None:
    ours = [run("alphaedge", flat(0.6 + 0.01 * s, 0.7, 0.8), seed=s) for s in range(3)]
    found = judged(ours, [run("noagg", flat(0.5, 0.6, 0.7), seed=s) for s in range(3)])
    assert found.gain == pytest.approx(0.1 + 0.01 / 3)
    assert found.ci95 == pytest.approx(interval95([0.1, 0.1 + 0.01 / 3, 0.1 + 0.02 / 3]))
    assert (found.interval_over, found.seeds, found.conclusion) == ("seeds", 3, "pays")
    assert found.regions[0].ci95 == pytest.approx(interval95([0.1, 0.11, 0.12]))


@pytest.mark.parametrize("seeds", [1, 2])
def test_with_fewer_seeds_the_interval_is_over_regions(seeds: int) -> None:
    ours = [run("alphaedge", flat(0.6, 0.8, 0.8), seed=s) for s in range(seeds)]
    found = judged(ours, [run("noagg", flat(0.5, 0.6, 0.7), seed=s) for s in range(seeds)])
    assert found.interval_over == "regions"
    assert found.ci95 == pytest.approx(interval95([0.1, 0.2, 0.1]))
    assert [region.ci95 for region in found.regions] == [None] * 3
    assert any("--seeds 3" in warning for warning in found.warnings)


def test_seeds_are_paired_and_one_without_its_pair_does_not_count() -> None:
    ours = [run("alphaedge", flat(0.6, 0.6, 0.6), seed=0), run("alphaedge", flat(0.9, 0.9, 0.9), seed=1)]
    found = judged(ours, [run("noagg", flat(0.5, 0.5, 0.5), seed=0)])
    assert found.gain == pytest.approx(0.1)
    assert judge(ours, [], facts()) is None
    assert judge(ours, [run("noagg", flat(0.5, 0.5, 0.5), seed=7)], facts()) is None


def test_hostile_edges_do_not_count() -> None:
    ours = run("alphaedge", flat(0.6, 0.7, 0.0), honest=(True, True, False))
    found = judged([ours], [run("noagg", flat(0.5, 0.6, 0.9), honest=(True, True, False))])
    assert found.gain == pytest.approx(0.1)
    assert found.regions[2].gain is None
    assert "better in 2 of 2 regions" in found.headline


def test_regions_go_by_their_names_with_volume_scores_and_bytes() -> None:
    found = judged([run("alphaedge", flat(0.6, 0.8, 0.7))], [run("noagg", flat(0.5, 0.6, 0.7))])
    assert [r.name for r in found.regions] == NAMES
    rome = found.regions[1]
    assert (rome.events, rome.alone, rome.with_peers, rome.bytes) == (4000, 0.6, 0.8, 1000)
    assert found.better == 2


def test_it_pays_from_the_time_after_which_the_gain_so_far_stays_above_zero() -> None:
    alone = run("noagg", [[0.5] * 5] * 3)
    ours = run("alphaedge", [[0.6, 0.3, 0.6, 0.7, 0.5]] * 3)  # gains: 0.1, -0.2, 0.1, 0.2, 0
    found = judged([ours], [alone], span=(JANUARY, JANUARY + 40 * DAY))
    assert found.pays_from is not None
    assert (found.pays_from.share, found.pays_from.events, found.pays_from.date) == (0.75, 40, "2025-01-31")
    assert any(sentence.startswith("From 2025-01-31 on (75% of the run") for sentence in found.sentences)


def test_a_short_run_has_the_time_of_day_and_one_without_dates_has_none() -> None:
    alone, ours = run("noagg", flat(0.5, 0.5, 0.5)), run("alphaedge", flat(0.6, 0.6, 0.6))
    short = judged([ours], [alone], span=(JANUARY, JANUARY + DAY)).pays_from
    assert short is not None
    assert short.date == "2025-01-01 00:00"
    bare = judged([ours], [alone]).pays_from
    assert bare is not None
    assert bare.date is None


def test_a_gain_that_is_lost_again_never_pays() -> None:
    alone, ours = run("noagg", [[0.5, 0.5]] * 3), run("alphaedge", [[0.6, 0.3]] * 3)
    found = judged([ours], [alone])
    assert found.pays_from is None
    assert any("not above 0" in sentence for sentence in found.sentences)


def test_each_edge_counts_the_same_however_many_batches_it_has() -> None:
    # The short edge gains 0.3 in each of 2 batches, the long one loses 0.1 in each of 10: 0.3 - 0.1 > 0.
    alone, ours = run("noagg", [[0.5] * 2, [0.5] * 10]), run("alphaedge", [[0.8] * 2, [0.4] * 10])
    found = judge([_two(ours)], [_two(alone)], facts(names=NAMES[:2], events=[20, 100]))
    assert found is not None
    assert found.gain == pytest.approx(0.1)
    assert found.pays_from is not None


def _two(one: RunResult) -> RunResult:
    one.honest[:] = [True, True]
    one.first_sight[:] = [None, None]
    return one


def test_new_ids_and_costs_are_told() -> None:
    ours = run("alphaedge", flat(0.6, 0.6, 0.6), first_sight=(0.7, None, 0.8), pulled=40_000)
    alone = run("noagg", flat(0.5, 0.5, 0.5), first_sight=(0.5, 0.5, 0.7))
    found = judged([ours], [alone], span=(JANUARY, JANUARY + 40 * DAY))
    assert found.new_ids == pytest.approx(0.15)
    assert (found.cost.bytes, found.cost.per_region, found.cost.per_region_and_day) == (120_000, 40_000, 1000)
    assert judged([ours], [alone]).cost.per_region_and_day is None


def test_few_rounds_get_a_warning_with_a_remedy() -> None:
    ours, alone = run("alphaedge", flat(0.6, 0.6, 0.6), rounds=3), run("noagg", flat(0.5, 0.5, 0.5))
    [told] = [w for w in judged([ours], [alone], size=100).warnings if "round" in w]
    assert told == "Only 4 rounds per region: use --batch-size 13."
    enough = judged([run("alphaedge", flat(0.6, 0.6, 0.6), rounds=30)], [alone])
    assert not any("round" in w for w in enough.warnings)


@given(st.integers(0, 10**7), st.integers(1, 2000), st.integers(1, 100))
def test_a_remedy_gives_thirty_rounds(events: int, size: int, every: int) -> None:
    text = remedy(events, size, every, 30)
    if text == "use more events":
        assert events < 30 * 10
        return
    for way in text.removeprefix("use ").split(" or "):
        words = way.split()
        options = dict(zip(words[::2], map(int, words[1::2]), strict=True))
        batches = events // options.get("--batch-size", size)
        assert batches // options.get("--aggregate-every", every) >= 30


def test_small_regions_get_a_warning_by_name() -> None:
    ours, alone = run("alphaedge", flat(0.6, 0.6, 0.6)), run("noagg", flat(0.5, 0.5, 0.5))
    found = judged([ours], [alone], events=[20, 4000, 299])
    assert any(w.startswith("Oslo has 20 events, Bonn has 299 events: too few") for w in found.warnings)


def test_a_baseline_above_both_models_is_named() -> None:
    ours, alone = run("alphaedge", flat(0.6, 0.6, 0.6)), run("noagg", flat(0.5, 0.5, 0.5))
    found = judged([ours], [alone], baselines={"running mean": 0.61, "last label": 0.9, "mean by item": 0.55})
    assert found.better_baseline == "last label"
    assert any("last label scores 0.9000" in w for w in found.warnings)
    between = judged([ours], [alone], baselines={"mean by item": 0.55})
    assert between.better_baseline is None


def test_a_notebook_shows_the_verdict_and_no_markup_of_the_data() -> None:
    ours, alone = run("alphaedge", flat(0.6, 0.6, 0.6)), run("noagg", flat(0.5, 0.5, 0.5))
    page = judged([ours], [alone], names=["<b>Oslo</b>", "Rome", "Bonn"])._repr_html_()
    assert "Learning from each other pays" in page
    assert "&lt;b&gt;Oslo" in page
    assert "<b>Oslo" not in page
