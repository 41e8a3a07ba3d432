"""What a demonstration says that it has shown: only what the numbers say."""

from alphaedge.demo.reactions import Exclusion, Reaction
from alphaedge.demo.summary import DemoSummary, EdgeSummary
from alphaedge.demo.verdict import verdict


def edge(name: str, gain: float | None, *, hostile: bool = False, down: float = 0.0) -> EdgeSummary:
    alone = None if gain is None else 0.7
    score = None if gain is None else 0.7 + gain
    return EdgeSummary(
        edge=name, region="DE", hostile=hostile, score=score, alone=alone, gain=gain,
        batches=9, aggregations=2, bytes=1, p50=1.0, p99=2.0, down_seconds=down,
    )  # fmt: skip


def summary(
    *edges: EdgeSummary, gain: float | None, reactions: tuple[Reaction, ...] = (), failures: int = 0
) -> DemoSummary:
    return DemoSummary(
        metric="AUC", seconds=60.0, events=1234, failures=failures, undelivered=0, score=None, alone=None, gain=gain,
        edges=edges, reactions=reactions, changes=0,
    )  # fmt: skip


def reaction(name: str, *, before: float, last: float, noticed: float | None) -> Reaction:
    exclusions = () if noticed is None else (Exclusion(round=1, seconds=noticed, reason="worse than alone by 40%"),)
    return Reaction(
        edge=name, hostile="mad", before=before, rounds=5, largest=before, largest_round=1, largest_seconds=1.0,
        last=last, above=(), exclusions=exclusions,
    )  # fmt: skip


def test_the_gain_is_that_of_the_honest_edges() -> None:
    first, second = verdict(
        summary(edge("oslo", 0.02), edge("rome", -0.01), edge("mad", 0.4, hostile=True), gain=0.005)
    )
    assert "1 of 2 honest edges: +0.0050 AUC on average" in first
    assert second.startswith("Meanwhile mad turned hostile, and nobody learned from it; all 1,234 predictions were")


def test_a_run_that_did_not_pay_says_so() -> None:
    first, _ = verdict(summary(edge("oslo", -0.02), edge("rome", 0.01), gain=-0.005))
    assert "did not pay in this run: -0.0050 AUC" in first


def test_without_a_twin_nothing_is_claimed() -> None:
    first, _ = verdict(summary(edge("oslo", None), gain=None))
    assert first == "No edge has a score of its home model to compare with."


def test_who_noticed_a_hostile_edge_and_when_is_told_and_what_was_lost() -> None:
    reactions = (
        reaction("oslo", before=0.3, last=0.0, noticed=7.0),
        reaction("rome", before=0.2, last=0.0, noticed=4.0),
    )
    edges = (edge("oslo", 0.02), edge("rome", 0.01, down=9.0), edge("mad", 0.4, hostile=True))
    _, second = verdict(summary(*edges, gain=0.015, reactions=reactions, failures=3))
    assert "while oslo and rome learned from it; it was shut out by rome after 4 s and oslo after 7 s" in second
    assert "at the end nobody learned from it" in second
    assert "rome was killed and back after 9 s; 3 requests failed." in second


def test_a_hostile_edge_that_kept_a_share_is_not_told_away() -> None:
    reactions = (reaction("oslo", before=0.3, last=0.2, noticed=None),)
    _, second = verdict(summary(edge("oslo", 0.02), edge("mad", 0.1, hostile=True), gain=0.02, reactions=reactions))
    assert "at the end it still had a share of 0.20" in second
