"""What became of a hostile edge's shares is told as the watcher saw it: the largest, for how long, and exclusions."""

import msgspec

from alphaedge.demo.reaction_text import REACTION_COLUMNS, reaction_rows, reaction_sentences
from alphaedge.demo.reactions import Exclusion, Reaction, TimeAbove, find_reactions
from alphaedge.monitoring.frames import Frame
from alphaedge.monitoring.vitals import EdgeView, Link, Vitals

HARMFUL = "excluded: worse than alone by 40%"


def view(aggregations: int, share: float = 0.0, state: str = "mixed", *, alive: bool = True) -> EdgeView:
    """An edge that gives mad a share in its last mix, whether it is still a neighbour or not."""
    links = {"mad": Link(share=share, state=state)}
    return EdgeView(region="DE", alive=alive, vitals=Vitals(aggregations=aggregations, links=links))


def react(*reports: tuple[float, EdgeView], ends: float | None = None) -> Reaction:
    """The reaction of the edge a. mad turns hostile at 10 s."""
    frames = [Frame(time=time, edges={"a": one}) for time, one in reports]
    if ends is not None:
        frames.append(Frame(time=ends, edges={"b": view(0)}))
    (found,) = find_reactions(frames, [(10.0, "mad")])
    return found


def above(found: Reaction) -> list[tuple[float, int, float, int]]:
    return [(t.share, t.rounds, t.seconds, t.last_round) for t in found.above]


def test_a_share_that_comes_back_counts_however_low_it_was_in_between() -> None:
    found = react(
        (9.0, view(4, 0.3)),
        (12.0, view(5, 0.1)),
        (14.0, view(6)),
        (30.0, view(14, 0.42)),
        (32.0, view(15, 0.02)),
        ends=40,
    )
    assert (found.before, found.largest, found.largest_round, found.largest_seconds) == (0.3, 0.42, 10, 20.0)
    assert (found.rounds, found.last) == (11, 0.02)
    assert above(found) == [(0.05, 9, 4.0, 10), (0.01, 10, 12.0, 11)], "rounds that were missed count as the next one"


def test_only_mixes_after_the_turn_count() -> None:
    found = react((9.0, view(4, 0.3)), (11.0, view(4, 0.3)), (13.0, view(5)), ends=20)
    assert (found.before, found.largest, found.last) == (0.3, 0.0, 0.0)
    assert above(found) == [(0.05, 0, 0.0, 0), (0.01, 0, 0.0, 0)]


def test_several_reports_of_one_mix_are_one_round() -> None:
    found = react((9.0, view(4)), (11.0, view(5, 0.2)), (12.0, view(5, 0.2)), (13.0, view(6)))
    assert above(found) == [(0.05, 1, 2.0, 1), (0.01, 1, 2.0, 1)]


def test_an_edge_that_is_down_mixes_nothing() -> None:
    found = react((9.0, view(4)), (11.0, view(5, 0.2)), (12.0, view(5, 0.2, alive=False)), (19.0, view(6)))
    assert above(found)[0] == (0.05, 1, 1.0, 1)


def test_exclusions_are_counted_from_the_turn_with_their_reasons() -> None:
    found = react(
        (9.0, view(4, 0.3)),
        (12.0, view(5, 0.0, HARMFUL)),
        (13.0, view(5)),  # it restarts, and has not reported the exclusion again
        (14.0, view(5, 0.0, HARMFUL)),
        (20.0, view(8, 0.0, "former")),
        (23.0, view(9, 0.0, "excluded: no model for 3 rounds")),
    )
    assert found.exclusions == (
        Exclusion(round=1, seconds=2.0, reason="worse than alone by 40%"),
        Exclusion(round=5, seconds=13.0, reason="no model for 3 rounds"),
    )


def test_an_exclusion_from_before_the_turn_is_no_reaction_to_it() -> None:
    excluded = view(4, 0.0, HARMFUL)
    assert find_reactions([Frame(time=9.0, edges={"a": excluded}), Frame(time=12.0, edges={"a": excluded})], []) == []
    assert react((9.0, excluded), (12.0, view(6, 0.1))).exclusions == ()


def test_edges_that_never_had_to_do_with_it_have_no_reaction_and_nor_has_the_hostile_one() -> None:
    frames = [Frame(time=9.0, edges={"a": view(1), "mad": view(3, 0.5)}), Frame(time=12.0, edges={"mad": view(4, 0.5)})]
    assert find_reactions(frames, [(10.0, "mad")]) == []
    assert find_reactions([], [(10.0, "mad")]) == []


def reaction(edge: str, largest: float, last: float = 0.0, *exclusions: Exclusion) -> Reaction:
    return Reaction(
        edge=edge,
        hostile="mad",
        before=0.3,
        rounds=9,
        largest=largest,
        largest_round=2,
        largest_seconds=4.4,
        last=last,
        above=(
            TimeAbove(share=0.05, rounds=1 if largest > 0.05 else 0, seconds=2.2, last_round=2),
            TimeAbove(share=0.01, rounds=3, seconds=6.6, last_round=7),
        ),
        exclusions=exclusions,
    )


def test_the_largest_share_is_told_and_for_how_long_and_when_it_was_excluded() -> None:
    first = Exclusion(round=3, seconds=7.0, reason="worse than alone by 40%")
    told = reaction_sentences("mad", [reaction("oslo", 0.04), reaction("rome", 0.42, 0.0, first, first)])
    assert told == [
        "When mad turned hostile, oslo gave it 0.30; rome gave it 0.30.",
        "The largest share that anybody gave it afterwards was 0.42: rome, in its mix 2 since the turn, 4 s after it.",
        "Shares above 0.05: rome in 1 mix (2 s), the last of them mix 2.",
        "Shares above 0.01: oslo in 3 mixes (7 s), the last of them mix 7; "
        "rome in 3 mixes (7 s), the last of them mix 7.",
        "It was excluded by: rome after 3 mixes (7 s; worse than alone by 40%), and 1 more time.",
        "In the last mix of the run nobody gave it a share.",
    ]


def test_what_is_above_both_thresholds_is_told_once() -> None:
    both = reaction("rome", 0.42)
    same = msgspec.structs.replace(both, above=(both.above[0], msgspec.structs.replace(both.above[0], share=0.01)))
    assert "Shares above 0.01: the same." in reaction_sentences("mad", [same])
    calm = msgspec.structs.replace(both, above=(reaction("oslo", 0.0).above[0],) * 2)
    assert "Shares above 0.01: none." in reaction_sentences("mad", [calm])


def test_a_share_at_the_end_of_the_run_is_told() -> None:
    told = reaction_sentences("mad", [reaction("rome", 0.42, 0.2)])
    assert told[-2:] == ["Nobody excluded it.", "In the last mix of the run it still had a share: rome 0.20."]


def test_a_hostile_edge_that_nobody_learned_from_is_told_as_well() -> None:
    assert len(reaction_sentences("mad", [])) == 1


def test_the_table_has_a_row_for_each_edge() -> None:
    first = Exclusion(round=3, seconds=7.0, reason="worse than alone by 40%")
    rows = reaction_rows("mad", [reaction("oslo", 0.04), reaction("rome", 0.42, 0.0, first, first)])
    assert [row[0] for row in rows] == ["oslo", "rome"]
    assert all(len(row) == len(REACTION_COLUMNS) for row in rows)
    assert rows[1][2:] == [
        "0.42 in mix 2",
        "1 mix, 2 s",
        "3 mixes, 7 s",
        "0.00",
        "after mix 3, 7 s: worse than alone by 40%; 2 times in all",
    ]
