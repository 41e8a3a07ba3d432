"""Bans are rules at the top of a policy that can be undone and leave the rest of it alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaedge.edge.trust.bans import add_ban, banned_edges, remove_ban
from alphaedge.edge.trust.policy import Member, Policy
from alphaedge.errors import InvalidValue

EXISTING = "# ours\nallow from=berlin to=*\ndeny from=CN to=US   # by law\n"
EDGES = st.sampled_from(["boston", "berlin", "a", "a.b", "DE"])


def test_a_ban_holds_whatever_the_policy_says() -> None:
    policy = Policy.parse(add_ban("allow from=* to=*\n" + EXISTING, "boston"))
    assert policy.ban(Member("boston", "US")) == "deny from=boston to=*"
    assert policy.ban(Member("berlin", "DE")) is None


@given(st.lists(EDGES, unique=True), st.sampled_from(["", EXISTING, "deny from=a to=b", "\n\n"]))
def test_undoing_all_bans_gives_the_policy_back_as_it_was(edges: list[str], text: str) -> None:
    changed = text
    for edge in edges:
        changed = add_ban(changed, edge)
        assert add_ban(changed, edge) == changed, "twice is once"
    assert banned_edges(changed) == sorted(edges)
    assert all(Policy.parse(changed).ban(Member(edge, "X")) for edge in edges)
    for edge in edges:
        changed = remove_ban(changed, edge)
    assert changed == text


def test_rules_that_a_person_wrote_are_not_undone() -> None:
    text = "deny from=boston to=*\ndeny from=* to=boston\n"
    assert banned_edges(text) == []
    with pytest.raises(InvalidValue, match="edge: found 'boston'; allowed: a banned edge: there is none"):
        remove_ban(text, "boston")
    assert remove_ban(add_ban(text, "boston"), "boston") == text


def test_a_policy_that_running_edges_would_refuse_is_refused() -> None:
    with pytest.raises(InvalidValue, match="policy, line 1"):
        add_ban("let nobody in", "boston")
    with pytest.raises(InvalidValue, match="edge: found 'a b'"):
        add_ban("", "a b")
