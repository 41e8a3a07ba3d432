"""Rules say who may learn from whom; the first that fits decides."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaedge import InvalidValue
from alphaedge.edge.trust.policy import Member, Policy, Rule

BEIJING, BOSTON, BERLIN, BONN = (
    Member("beijing", "CN"),
    Member("boston", "US"),
    Member("berlin", "DE"),
    Member("bonn", "DE"),
)


def test_without_rules_everybody_may_learn_from_everybody() -> None:
    assert Policy.parse("").allows(BEIJING, BOSTON)
    assert Policy.parse("\n  # nothing\n").allows(BEIJING, BOSTON)


def test_a_rule_has_a_direction() -> None:
    rules = Policy.parse("deny from=CN to=US  # by law")
    assert rules.refusal(BEIJING, BOSTON) == "deny from=CN to=US"
    assert rules.allows(BOSTON, BEIJING)
    assert rules.allows(BEIJING, BERLIN)


def test_the_first_rule_that_fits_decides() -> None:
    rules = Policy.parse("allow from=berlin to=*\ndeny from=DE to=*")
    assert rules.allows(BERLIN, BOSTON)
    assert not rules.allows(BONN, BOSTON)
    assert not rules.allows(BONN, BERLIN), "a region may be closed to itself"


def test_sources_are_those_that_an_edge_may_fetch_from() -> None:
    rules = Policy.parse("deny from=CN to=US\ndeny from=bonn to=boston")
    everybody = [BEIJING, BOSTON, BERLIN, BONN]
    assert rules.sources(BOSTON, everybody) == ["berlin"]
    assert rules.sources(BERLIN, everybody) == ["beijing", "boston", "bonn"]


BAD = """deny
deny from=CN
deny to=US from=CN
forbid from=a to=b
deny from= to=b
deny from=a to=b c
deny from=-a to=b"""


@pytest.mark.parametrize("line", BAD.splitlines())
def test_a_line_that_is_no_rule_is_named(line: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        Policy.parse(f"deny from=a to=b\n{line}")
    assert caught.value.field == "policy, line 2"
    assert caught.value.found == line


NAMES = st.sampled_from(["*", "a", "b", "X", "Y"])
MEMBERS = st.builds(Member, st.sampled_from(["a", "b"]), st.sampled_from(["X", "Y"]))


@given(st.lists(st.builds(Rule, st.booleans(), NAMES, NAMES)), MEMBERS, MEMBERS)
def test_a_policy_survives_being_written_down(rules: list[Rule], sender: Member, receiver: Member) -> None:
    policy = Policy(tuple(rules))
    again = Policy.parse("\n".join(map(str, rules)))
    assert again == policy
    expected = next((r.allow for r in rules if r.fits(sender, receiver)), True)
    assert again.allows(sender, receiver) == expected
