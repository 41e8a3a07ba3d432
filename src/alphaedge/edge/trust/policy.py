"""Which edge may learn from which: rules by region or by edge, in a text file that both ends of every link read.

    # A model travels from one edge to another. The first rule that matches decides; without one, it is allowed.
    deny from=CN to=US
    allow from=berlin to=*
    deny from=DE to=*

A name matches the region or the edge of that name, * matches every edge. Both ends enforce the policy: the edge that
would pull does not ask, and the edge that is asked refuses.

An edge that may neither give its model to anybody nor get one from anybody is banned: others ignore what it announces
and refuse whatever it asks for, gossip too. ``alphaedge ban`` writes the two rules.

    deny from=boston to=*
    deny from=* to=boston
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from alphaedge.errors import InvalidValue
from alphaedge.names import NAME_PATTERN

RULE_PATTERN: Final = re.compile(rf"(allow|deny)\s+from=(\*|{NAME_PATTERN})\s+to=(\*|{NAME_PATTERN})")


@final
@dataclass(frozen=True)
class Member:
    """An edge as a policy sees it."""

    edge: str
    region: str


@final
@dataclass(frozen=True)
class PolicyRule:
    """One line of a policy. sender: whose model it is. receiver: who would pull it."""

    allow: bool
    sender: str
    receiver: str

    def matches(self, sender: Member, receiver: Member) -> bool:
        """Whether the rule applies to this link."""
        return _matches(self.sender, sender) and _matches(self.receiver, receiver)

    def __str__(self) -> str:
        return f"{'allow' if self.allow else 'deny'} from={self.sender} to={self.receiver}"


def _matches(name: str, member: Member) -> bool:
    return name in ("*", member.edge, member.region)


@final
@dataclass(frozen=True)
class Policy:
    """All rules, in order.

    >>> policy = Policy.parse("deny from=CN to=US")
    >>> policy.refusal(Member("beijing", "CN"), Member("boston", "US"))
    'deny from=CN to=US'
    >>> policy.allows(Member("boston", "US"), Member("beijing", "CN"))
    True
    """

    rules: tuple[PolicyRule, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Policy":
        """Parse the text of a policy file."""
        rules = []
        for number, line in enumerate(text.splitlines(), 1):
            code = line.partition("#")[0].strip()
            if not code:
                continue
            match = RULE_PATTERN.fullmatch(code)
            if match is None:
                raise InvalidValue(f"policy, line {number}", code, "allow or deny, then from=NAME to=NAME (or *)")
            rules.append(PolicyRule(match[1] == "allow", match[2], match[3]))
        return cls(tuple(rules))

    def refusal(self, sender: Member, receiver: Member) -> str | None:
        """Return the rule that keeps ``receiver`` from pulling the model of ``sender``; None if it may."""
        for rule in self.rules:
            if rule.matches(sender, receiver):
                return None if rule.allow else str(rule)
        return None

    def ban(self, member: Member) -> str | None:
        """Return the rule that bans a member: rules that name it deny it everybody's model, and everybody its own."""
        giving = self._closes(member, lambda rule: (rule.sender, rule.receiver))
        getting = self._closes(member, lambda rule: (rule.receiver, rule.sender))
        return str(giving) if giving is not None and getting is not None else None

    def _closes(self, member: Member, sides: Callable[[PolicyRule], tuple[str, str]]) -> PolicyRule | None:
        """Return the rule that closes one direction to a member as a whole. sides: its own in a rule, and the other."""
        for rule in self.rules:
            own, other = sides(rule)
            if own in (member.edge, member.region) and (other == "*" or rule.allow):
                return None if rule.allow else rule
            if own == "*" and rule.allow:  # an exception for somebody, or for everybody
                return None
        return None

    def allows(self, sender: Member, receiver: Member) -> bool:
        """Whether ``receiver`` may pull the model of ``sender``."""
        return self.refusal(sender, receiver) is None
