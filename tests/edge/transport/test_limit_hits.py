"""Hits are counted by member and limit, and logged at most once a minute for each."""

from alphaedge.edge.transport.limit_hits import MAX_MEMBERS, OTHERS, LimitHits


def test_each_member_and_limit_is_logged_by_itself() -> None:
    hits = LimitHits()
    assert hits.note("ann", "rate", now=0.0)
    assert hits.note("ann", "size", now=0.0)
    assert hits.note("bob", "rate", now=1.0)
    assert not hits.note("ann", "rate", now=59.9)
    assert hits.note("ann", "rate", now=60.0)
    assert hits.counts == {"ann": {"rate": 3, "size": 1}, "bob": {"rate": 1}}


def test_members_without_end_are_counted_together() -> None:
    hits = LimitHits()
    for number in range(3 * MAX_MEMBERS):
        hits.note(f"edge-{number}", "rate", now=0.0)
    assert len(hits.counts) == MAX_MEMBERS + 1
    assert hits.counts[OTHERS] == {"rate": 2 * MAX_MEMBERS}
