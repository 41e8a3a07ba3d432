"""Large answers that are kept for a while, so that a client whose connection broke can ask for the rest. Pure."""

import secrets
from dataclasses import dataclass, field
from typing import Final, final

MIN_KEPT_BYTES: Final = 1 << 16  # shorter answers are simply asked for again
MAX_KEPT_BYTES: Final = 64 << 20  # together, unless a single answer is larger


@final
@dataclass
class KeptAnswers:
    """The last large answer to each member; the oldest are dropped when they become too many bytes."""

    _answers: dict[str, tuple[str, bytes]] = field(default_factory=dict)  # member -> (token, answer), oldest first

    def keep(self, member: str, answer: bytes) -> str | None:
        """Keep an answer; returns the token to ask for it with, or None if it is too short."""
        if len(answer) < MIN_KEPT_BYTES:
            return None
        self._answers.pop(member, None)
        token = secrets.token_hex(16)
        self._answers[member] = (token, answer)
        while len(self._answers) > 1 and self.bytes > MAX_KEPT_BYTES:
            del self._answers[next(iter(self._answers))]
        return token

    def rest(self, member: str, token: str, start: str) -> memoryview | None:
        """The rest of an answer from byte ``start`` on, only for the member that the answer was for."""
        kept, answer = self._answers.get(member, ("", b""))
        if not kept or token != kept or not (start.isascii() and start.isdecimal() and len(start) < 16):
            return None
        return memoryview(answer)[int(start) :] if int(start) <= len(answer) else None

    @property
    def bytes(self) -> int:
        """What the kept answers take."""
        return sum(len(answer) for _, answer in self._answers.values())
