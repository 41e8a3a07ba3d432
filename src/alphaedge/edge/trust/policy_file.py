"""The policy file of a running edge, read again whenever it changes."""

from pathlib import Path
from typing import Final, final

from alphaedge.edge.log import info, warn
from alphaedge.edge.trust.policy import Member, Policy
from alphaedge.errors import InvalidValue

DEFAULT_POLICY: Final = "policy.txt"  # beside the configuration, which need not name it


@final
class PolicyFile:
    """The rules in force. The file must be valid at the start; later, one that is not leaves the rules as they are.

    A file that is being written is empty for a moment, then half there, or gone. So what has changed counts once two
    looks in a row find the same.

    optional: whether there may be no file, which means no rules.
    """

    def __init__(self, path: Path | None, *, optional: bool = False) -> None:
        self._path, self._optional, self._last_error = path, optional, ""
        self._in_force = self._last_seen = self._look()
        self.rules = Policy.parse(self._in_force or "")

    def _look(self) -> str | None:
        if self._path is None:
            return None
        try:
            return self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            if not self._optional:
                raise
            return None

    def ban(self, member: Member) -> str | None:
        """Return the rule that bans a member; None if there is none."""
        return self.rules.ban(member)

    def refresh(self) -> bool:
        """Look at the file once more; True if other rules are in force now."""
        before = self.rules
        try:
            found, self._last_seen = self._last_seen, self._look()
            if found == self._last_seen != self._in_force:
                self.rules, self._in_force = Policy.parse(found or ""), found
            self._last_error = ""
        except (InvalidValue, OSError, UnicodeDecodeError) as error:
            if str(error) != self._last_error:
                warn("policy_file_refused", reason=error)
            self._last_error = str(error)
        if self.rules == before:
            return False
        info("policy_changed", rules=len(self.rules.rules))
        return True
