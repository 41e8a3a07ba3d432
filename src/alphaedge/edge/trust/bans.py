"""Bans in a policy file: two rules at its top for each banned edge, marked so that they can be undone. Pure.

>>> print(add_ban("allow from=* to=berlin", "boston"))
deny from=boston to=*  # alphaedge ban
deny from=* to=boston  # alphaedge ban
allow from=* to=berlin
>>> banned_edges(add_ban("", "boston"))
['boston']
>>> remove_ban(add_ban("allow from=* to=berlin", "boston"), "boston")
'allow from=* to=berlin'
"""

from typing import Final

from alphaedge.edge.trust.policy import Policy
from alphaedge.errors import InvalidValue
from alphaedge.names import check_name

MARK: Final = "  # alphaedge ban"


def _lines(edge: str) -> tuple[str, str]:
    return f"deny from={edge} to=*{MARK}", f"deny from=* to={edge}{MARK}"


def banned_edges(text: str) -> list[str]:
    """List the edges that ``add_ban`` has banned."""
    lines = set(text.splitlines())
    names = [line.removeprefix("deny from=").partition(" ")[0] for line in text.splitlines() if line.endswith(MARK)]
    return sorted({name for name in names if name != "*" and lines.issuperset(_lines(name))})


def add_ban(text: str, edge: str) -> str:
    """Return the policy with a ban on an edge, before all other rules. Refuses a policy that is not valid."""
    check_name("edge", edge)
    Policy.parse(text)  # running edges would not read it, and the ban would not hold
    return text if edge in banned_edges(text) else "\n".join([*_lines(edge), text])


def remove_ban(text: str, edge: str) -> str:
    """Return the policy without the ban on an edge. Refuses an edge that ``add_ban`` has not banned."""
    banned = banned_edges(text)
    if edge not in banned:
        raise InvalidValue("edge", edge, "a banned edge: " + (", ".join(banned) or "there is none"))
    return "".join(line for line in text.splitlines(keepends=True) if line.rstrip("\r\n") not in _lines(edge))
