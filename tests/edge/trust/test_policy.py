"""Rules say which edge may learn from which; the first that matches decides."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaedge import InvalidValue
from alphaedge.edge.trust.bans import add_ban
from alphaedge.edge.trust.policy import Member, Policy, PolicyRule
from alphaedge.edge.trust.policy_file import PolicyFile

BEIJING, BOSTON = Member("beijing", "CN"), Member("boston", "US")
BERLIN, BONN = Member("berlin", "DE"), Member("bonn", "DE")


def test_without_rules_every_edge_may_learn_from_every_other() -> None:
    assert Policy.parse("").allows(BEIJING, BOSTON)
    assert Policy.parse("\n  # nothing\n").allows(BEIJING, BOSTON)


def test_a_rule_has_a_direction() -> None:
    policy = Policy.parse("deny from=CN to=US  # by law")
    assert policy.refusal(BEIJING, BOSTON) == "deny from=CN to=US"
    assert policy.allows(BOSTON, BEIJING)
    assert policy.allows(BEIJING, BERLIN)


def test_the_first_rule_that_matches_decides() -> None:
    policy = Policy.parse("allow from=berlin to=*\ndeny from=DE to=*")
    assert policy.allows(BERLIN, BOSTON)
    assert not policy.allows(BONN, BOSTON)
    assert not policy.allows(BONN, BERLIN), "a region may be closed to itself"


INVALID = """deny
deny from=CN
deny to=US from=CN
forbid from=a to=b
deny from= to=b
deny from=a to=b c
deny from=-a to=b"""


@pytest.mark.parametrize("line", INVALID.splitlines())
def test_an_invalid_line_is_refused_by_its_number(line: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        Policy.parse(f"deny from=a to=b\n{line}")
    assert caught.value.field == "policy, line 2"
    assert caught.value.found == line


NAMES = st.sampled_from(["*", "a", "b", "X", "Y"])
MEMBERS = st.builds(Member, st.sampled_from(["a", "b"]), st.sampled_from(["X", "Y"]))


@given(st.lists(st.builds(PolicyRule, st.booleans(), NAMES, NAMES)), MEMBERS, MEMBERS)
def test_a_policy_survives_a_round_trip_through_text(rules: list[PolicyRule], sender: Member, receiver: Member) -> None:
    policy = Policy(tuple(rules))
    parsed = Policy.parse("\n".join(map(str, rules)))
    assert parsed == policy
    expected = next((rule.allow for rule in rules if rule.matches(sender, receiver)), True)
    assert parsed.allows(sender, receiver) == expected


BANS = {
    "both directions": ("deny from=boston to=*\ndeny from=* to=boston", True),
    "by region": ("deny from=US to=*\ndeny from=* to=US", True),
    "one by edge, one by region": ("deny from=US to=*\ndeny from=* to=boston", True),
    "one direction": ("deny from=boston to=*", False),
    "the other direction": ("deny from=* to=US", False),
    "regions closed to each other": ("deny from=US to=CN\ndeny from=CN to=US", False),
    "everybody learns alone": ("deny from=* to=*", False),
    "an exception": ("allow from=boston to=berlin\ndeny from=boston to=*\ndeny from=* to=boston", False),
    "an exception of another": ("allow from=berlin to=*\ndeny from=boston to=*\ndeny from=* to=boston", False),
    "too late": ("deny from=boston to=*\ndeny from=* to=boston\nallow from=boston to=berlin", True),
}


@pytest.mark.parametrize("case", list(BANS))
def test_an_edge_is_banned_if_rules_that_name_it_close_both_directions(case: str) -> None:
    text, is_banned = BANS[case]
    policy = Policy.parse(text)
    assert (policy.ban(BOSTON) is not None) == is_banned
    assert policy.ban(BERLIN) is None
    if is_banned:
        assert not policy.allows(BOSTON, BERLIN)
        assert not policy.allows(BERLIN, BOSTON)


@given(st.lists(st.builds(PolicyRule, st.booleans(), NAMES, NAMES)), MEMBERS)
def test_a_banned_edge_gets_and_gives_no_model(rules: list[PolicyRule], member: Member) -> None:
    policy = Policy(tuple(rules))
    others = [Member(edge, region) for edge in "ab" for region in "XY" if edge != member.edge]
    if policy.ban(member) is not None:
        assert not any(policy.allows(member, other) or policy.allows(other, member) for other in others)


def is_taken(file: PolicyFile) -> bool:
    """Whether other rules are in force after two looks at the file."""
    return not file.refresh() and file.refresh()


def test_a_policy_file_that_is_being_written_never_lifts_a_rule(tmp_path: Path) -> None:
    path = tmp_path / "policy.txt"
    first, second = "deny from=CN to=US\n", "deny from=US to=CN\n"
    path.write_text(first + second)
    file = PolicyFile(path, optional=True)
    for unfinished in ("", None, first, "", "# a long comm", None, second):
        path.unlink() if unfinished is None else path.write_text(unfinished)
        assert not file.refresh()
        assert len(file.rules.rules) == 2
    path.write_text(first)
    assert is_taken(file)
    assert file.rules == Policy.parse(first)


def test_a_policy_file_may_appear_and_vanish_if_the_configuration_does_not_name_it(tmp_path: Path) -> None:
    path = tmp_path / "policy.txt"
    with pytest.raises(FileNotFoundError):
        PolicyFile(path)
    file = PolicyFile(path, optional=True)
    path.write_text(add_ban("", "boston"))
    assert is_taken(file)
    assert file.ban(BOSTON) == "deny from=boston to=*"
    path.unlink()
    assert is_taken(file)
    assert file.ban(BOSTON) is None


def test_a_policy_file_that_becomes_invalid_leaves_the_rules_in_force(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "policy"
    path.write_text("deny from=CN to=US")
    file = PolicyFile(path)
    assert not file.refresh(), "nothing has changed"
    path.write_text("deny from=CN to=US and more")
    assert not is_taken(file)
    assert not is_taken(file)
    assert caplog.messages == ["policy_file_refused"], "the same error is logged once"
    assert not file.rules.allows(BEIJING, BOSTON)
    path.write_text("")
    assert is_taken(file)
    assert file.rules.allows(BEIJING, BOSTON)
