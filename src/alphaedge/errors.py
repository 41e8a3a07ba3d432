"""Every error that AlphaEdge raises on purpose, in one tree.

AlphaEdgeError
├── InvalidValue              a setting or an input that is refused: field, value, what is allowed
│   └── RequestTooLarge       a caller's request has more than is allowed
├── ModelError                a user's module does not do what was declared of it
├── RuleError                 a user's rule does not fulfil its protocol
├── ArchiveError              a data set's archive is missing or damaged
├── EdgeError                 an edge did not answer a client, or refused
├── ModelMismatch             an edge's model does not take the fields of the data
├── Unreachable               the fleet can't be read through this edge
├── FleetError                an edge of the demonstration failed
└── errors of a running edge
    ├── JournalError          the journal can't be read or written
    ├── ParametersError       no usable parameters from the learner
    ├── CheckpointError       a checkpoint can't be used
    ├── RolledBack            the learner has to start again, from an earlier state
    ├── AlreadyRunning        another process uses this data folder
    ├── CertificateError      a certificate or key must not be used
    ├── AnnouncementError     an announcement is not believed
    │   └── ForgedAnnouncement   it is not what its edge has signed, so whoever passes it on is at fault
    ├── PeerError             another edge could not be reached, or refused
    ├── ModelRefused          a peer's model or request is refused
    │   └── ModelOutdated        it is older than what is held of that peer
    ├── KeyListError          bytes that are not a set of keys
    ├── KeyListForgotten      a request builds on a key list that this edge no longer has
    ├── SecretUnknown         a request names keys under a secret that this edge does not have
    ├── PeerForbidden         the policy does not let this peer have the model
    ├── BadPeerRequest        a peer's request can't be parsed
    └── PeerRequestTooLarge   a peer's request names more than is allowed
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

# HTTP statuses after which the same request may succeed later; 0 means that there was no answer.
TEMPORARY_STATUSES: Final = frozenset({0, 429, 502, 503, 504})


class AlphaEdgeError(Exception):
    """Base of every error that AlphaEdge raises on purpose."""


class InvalidValue(AlphaEdgeError, ValueError):
    """A value was refused: says which field, what was found and what is allowed.

    >>> raise InvalidValue("delay", -1, "a whole number of batches, 0 or more")
    Traceback (most recent call last):
        ...
    alphaedge.errors.InvalidValue: delay: found -1; allowed: a whole number of batches, 0 or more
    """

    def __init__(self, field: str, found: Any, allowed: str) -> None:
        self.field, self.found, self.allowed = field, found, allowed
        super().__init__(field, found, allowed)

    def __str__(self) -> str:
        found = "nothing" if self.found is None else repr(self.found)
        return f"{self.field}: found {found}; allowed: {self.allowed}"


class RequestTooLarge(InvalidValue):
    """A caller's request has more examples, labels or bytes than is allowed; says how many."""


class ModelError(AlphaEdgeError):
    """A user's module does not do what was declared of it."""


class RuleError(AlphaEdgeError):
    """A user's rule does not fulfil its protocol; says which part is missing or wrong."""


class ArchiveError(AlphaEdgeError):
    """A data set's archive is missing or damaged."""


class EdgeError(AlphaEdgeError):
    """An edge did not answer a client, or refused. ``status`` is the HTTP status, 0 without an answer."""

    def __init__(self, url: str, reason: str, status: int = 0, *, temporary: bool | None = None) -> None:
        super().__init__(f"{url}: {reason}")
        self.url, self.reason, self.status = url, reason, status
        self.temporary = status in TEMPORARY_STATUSES if temporary is None else temporary


class ModelMismatch(AlphaEdgeError):
    """An edge's model does not take the fields of the data; lists every difference."""

    def __init__(self, url: str, model: str, differences: Sequence[str]) -> None:
        super().__init__(
            f"{url}: its model '{model}' does not fit the data: {'; '.join(differences)}; "
            "alphaedge replay with --print-config prints a [model] that does"
        )
        self.differences = tuple(differences)


class Unreachable(AlphaEdgeError):
    """The fleet can't be read through this edge; says why."""


class FleetError(AlphaEdgeError):
    """An edge of the demonstration did not start or stopped early; says which."""


class JournalError(AlphaEdgeError):
    """The journal can't be read or written; says what to do."""


class ParametersError(AlphaEdgeError):
    """The learner has not written usable parameters."""


class CheckpointError(AlphaEdgeError):
    """A checkpoint can't be used; says which and why."""


class RolledBack(AlphaEdgeError):
    """The learner has to start again, from an earlier state that is on disk."""


class AlreadyRunning(AlphaEdgeError):
    """Another process uses this data folder."""


class CertificateError(AlphaEdgeError):
    """A certificate or key must not be used; says which and why."""


class AnnouncementError(AlphaEdgeError):
    """An announcement is not believed; says whose and why."""


class ForgedAnnouncement(AnnouncementError):
    """An announcement, a heartbeat or a list is not what was signed. No honest edge passes such a thing on."""


class PeerError(AlphaEdgeError):
    """Another edge could not be reached, or refused.

    status: the HTTP status, 0 without an answer. retry_after: seconds to wait at least, if the edge said so.
    """

    def __init__(self, text: str, status: int = 0, retry_after: float = 0.0) -> None:
        super().__init__(text)
        self.status, self.retry_after = status, retry_after


class ModelRefused(AlphaEdgeError):
    """A peer's model or request is refused; says why."""


class ModelOutdated(ModelRefused):
    """A peer's model is older than the publication that is held of it."""


class KeyListError(AlphaEdgeError):
    """Bytes that are not a set of keys, or positions that are not in a key list."""


class KeyListForgotten(AlphaEdgeError):
    """A request builds on a key list that this edge no longer has."""


class SecretUnknown(AlphaEdgeError):
    """A request names keys under a secret that this edge does not have."""


class PeerForbidden(AlphaEdgeError):
    """The policy does not let this peer have the model; names the rule."""


class BadPeerRequest(AlphaEdgeError):
    """A peer's request can't be parsed; says why."""


class PeerRequestTooLarge(AlphaEdgeError):
    """A peer's request names more than is allowed; says what, how many and the limit."""


def check_number(
    field: str,
    found: Any,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
    whole: bool = False,
) -> None:
    """Refuse ``found`` unless it is a finite number in the stated range (bounds included; ``above`` not)."""
    right_type = isinstance(found, int | float) and not isinstance(found, bool)
    if (
        not right_type
        or found != found
        or found in (float("inf"), float("-inf"))
        or (whole and not isinstance(found, int))
        or (low is not None and found < low)
        or (high is not None and found > high)
        or (above is not None and found <= above)
        or (below is not None and found >= below)
    ):
        raise InvalidValue(field, found, number_range(low=low, high=high, above=above, below=below, whole=whole))


def number_range(
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
    whole: bool = False,
) -> str:
    """Describe a range of numbers (bounds included; ``above`` and ``below`` not).

    >>> number_range(low=0, high=65535, whole=True)
    'a whole number from 0 to 65535'
    """
    words = ["a whole number" if whole else "a number"]
    if low is not None and high is not None:
        words.append(f"from {low} to {high}")
    elif low is not None:
        words.append(f"of at least {low}")
    elif high is not None:
        words.append(f"of at most {high}")
    if above is not None:
        words.append(f"above {above}")
    if below is not None:
        words.append(f"below {below}")
    return " ".join(words)


def check_choice(field: str, found: Any, choices: Iterable[str]) -> None:
    """Refuse ``found`` unless it is one of ``choices``."""
    choices = list(choices)
    if found not in choices:
        raise InvalidValue(field, found, "one of " + ", ".join(choices))
