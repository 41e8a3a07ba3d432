"""When to warn that an edge's own certificate expires soon, or is revoked. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, final

from alphaedge.edge.trust.certificates import Identity

WARN_DAYS: Final = (14, 7, 3, 2, 1, 0)  # before expiry: one warning each


@final
@dataclass
class ExpiryAlarm:
    """Remembers which warnings were given, for the certificate in use."""

    _serial: int = -1
    _warned: int = 0  # the last limit that was warned of
    _revoked: bool = False

    def check(self, identity: Identity, days: float, *, is_revoked: bool) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the warnings that are due: an event and its fields. days: until the certificate expires."""
        if identity.serial != self._serial:
            self._serial, self._warned, self._revoked = identity.serial, WARN_DAYS[0] + 1, False
        reached = [limit for limit in WARN_DAYS if days <= limit]
        if reached and reached[-1] < self._warned:
            self._warned = reached[-1]
            yield "certificate_expires", {"days": round(days, 1), "at": f"{identity.not_after:%Y-%m-%d %H:%M}"}
        if is_revoked and not self._revoked:
            yield "own_certificate_revoked", {"serial": f"{identity.serial:x}"}
        self._revoked = is_revoked
