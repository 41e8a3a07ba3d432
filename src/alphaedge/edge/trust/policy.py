"""Who may learn from whom: rules by region or by edge, in a text file that both ends of every link read.

    # from is whose model travels, to is who gets it; the first rule that fits decides, and without one it is allowed
    deny from=CN to=US
    allow from=berlin to=*
    deny from=DE to=*

A name means the region or the edge of that name, * means everybody. The edge that would fetch does not ask, and the
edge that is asked refuses: either end alone is enough.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, final

from alphaedge.errors import InvalidValue
from alphaedge.names import NAME

RULE: Final = re.compile(rf"(allow|deny)\s+from=(\*|{NAME})\s+to=(\*|{NAME})")


@final
@dataclass(frozen=True)
class Member:
    """An edge as rules see it."""

    edge: str
    region: str


@final
@dataclass(frozen=True)
class Rule:
    """One line."""

    allow: bool
    sender: str
    receiver: str

    def fits(self, sender: Member, receiver: Member) -> bool:
        """Whether the rule speaks of these two."""
        return _is(self.sender, sender) and _is(self.receiver, receiver)

    def __str__(self) -> str:
        return f"{'allow' if self.allow else 'deny'} from={self.sender} to={self.receiver}"


def _is(name: str, member: Member) -> bool:
    return name in ("*", member.edge, member.region)


@final
@dataclass(frozen=True)
class Policy:
    """All rules, in their order.

    >>> rules = Policy.parse("deny from=CN to=US")
    >>> rules.refusal(Member("beijing", "CN"), Member("boston", "US"))
    'deny from=CN to=US'
    >>> rules.allows(Member("boston", "US"), Member("beijing", "CN"))
    True
    """

    rules: tuple[Rule, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Policy":
        """From the text of a policy file."""
        rules = []
        for number, line in enumerate(text.splitlines(), 1):
            bare = line.partition("#")[0].strip()
            if not bare:
                continue
            match = RULE.fullmatch(bare)
            if match is None:
                raise InvalidValue(f"policy, line {number}", bare, "allow or deny, then from=NAME to=NAME (or *)")
            rules.append(Rule(match[1] == "allow", match[2], match[3]))
        return cls(tuple(rules))

    def refusal(self, sender: Member, receiver: Member) -> str | None:
        """The rule by which ``receiver`` may not have the model of ``sender``; None if it may."""
        for rule in self.rules:
            if rule.fits(sender, receiver):
                return None if rule.allow else str(rule)
        return None

    def allows(self, sender: Member, receiver: Member) -> bool:
        """Whether ``receiver`` may have the model of ``sender``."""
        return self.refusal(sender, receiver) is None

    def sources(self, me: Member, others: Iterable[Member]) -> list[str]:
        """The edges that an edge may fetch from."""
        return [other.edge for other in others if other.edge != me.edge and self.allows(other, me)]
