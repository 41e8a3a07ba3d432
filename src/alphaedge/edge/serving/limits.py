"""What callers may use of a server: requests a second, connections, memory for bodies. Pure: the time is an argument.

A caller is whoever has the token, or an address. Every limit holds before anything of a request is read.
"""

from collections import Counter
from collections.abc import Hashable
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final, Literal, final

from alphaedge.edge.config import ServeConfig
from alphaedge.rate_limit import RateLimiter

Reason = Literal["body", "size", "encoding", "rate", "busy", "memory", "head", "time", "malformed", "connections"]
"""Why a request or a connection was refused.

body: too many bytes. size: too many examples, labels or values. encoding: an unknown Content-Encoding. rate: too many
requests a second. busy: too many large bodies at once. memory: none is left for this request. head: too large. time: it
did not arrive in time. malformed: not HTTP. connections: too many.
"""

TOKEN_CALLER: Final = "token"  # all callers with the token
SMALL_BODY_BYTES: Final = 1 << 16  # bodies up to this size need no room in the budget
BODIES, CALLER_BODIES = 8, 4  # of the largest size, that may be in memory at once: of all callers, and of one
NETWORK_BITS: Final = 64  # of an IPv6 address: one customer has as many addresses as it likes in such a network


@lru_cache(maxsize=1024)
def caller_at(address: str) -> str:
    """The caller at an address without a token: for IPv6 its whole network.

    >>> caller_at("192.0.2.7"), caller_at("2001:db8::1:2"), caller_at("::ffff:192.0.2.7")
    ('192.0.2.7', '2001:db8::', '192.0.2.7')
    """
    if ":" not in address:
        return address
    found = ip_address(address.partition("%")[0])
    if not isinstance(found, IPv6Address):
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(IPv6Address(int(found) >> NETWORK_BITS << NETWORK_BITS))


@final
class Budget:
    """Amounts of something that is limited, in all and for each caller. Remembers only those who hold some.

    >>> budget = Budget(total=10, per_caller=6)
    >>> budget.take("ann", 6), budget.take("ann", 1), budget.take("bob", 5), budget.take("bob", 4)
    (True, False, False, True)
    >>> budget.give_back("ann", 6)
    >>> budget.take("ann", 6)
    True
    """

    def __init__(self, total: int, per_caller: int) -> None:
        self.total, self.per_caller = total, per_caller
        self._held: Counter[Hashable] = Counter()
        self._all = 0

    def take(self, caller: Hashable, amount: int = 1) -> bool:
        """Take an amount, if there is enough; returns whether there was."""
        if self._all + amount > self.total or self._held[caller] + amount > self.per_caller:
            return False
        self._held[caller] += amount
        self._all += amount
        return True

    def give_back(self, caller: Hashable, amount: int = 1) -> None:
        """Give back an amount that was taken."""
        self._held[caller] -= amount
        self._all -= amount
        if not self._held[caller]:
            del self._held[caller]

    @property
    def is_used_up(self) -> bool:
        """Whether nothing is left for anybody."""
        return self._all >= self.total

    def __len__(self) -> int:
        return len(self._held)


@final
class CallerLimits:
    """The limits of one server. max_connections: what the system allows, if that is less than configured."""

    def __init__(self, config: ServeConfig, max_connections: int | None = None) -> None:
        most = config.max_connections if max_connections is None else max_connections
        self.connections = Budget(most, min(most, config.max_connections_per_address))
        self.bodies = Budget(BODIES * config.max_body_bytes, CALLER_BODIES * config.max_body_bytes)
        rate = config.max_requests_per_second
        self._rate = RateLimiter[str](rate, max(rate, 1.0)) if rate else None

    def wait_seconds(self, caller: str, now: float) -> float:
        """How long a caller has to wait before its next request; 0 if this one may be answered."""
        return 0.0 if self._rate is None else self._rate.take(caller, now)
