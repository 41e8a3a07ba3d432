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

    optional: whether there may be no file, which means no rules.
    """

    def __init__(self, path: Path | None, *, optional: bool = False) -> None:
        self._path, self._optional, self._version, self._last_error = path, optional, (0, 0), ""
        self.rules = Policy()
        if path is not None:
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            stat = path.stat()
        except FileNotFoundError:
            if not self._optional:
                raise
            self.rules, self._version = Policy(), (0, 0)
            return
        version = (stat.st_mtime_ns, stat.st_size)
        if version != self._version:
            self.rules, self._version = Policy.parse(path.read_text(encoding="utf-8")), version

    def ban(self, member: Member) -> str | None:
        """Return the rule that bans a member; None if there is none."""
        return self.rules.ban(member)

    def refresh(self) -> bool:
        """Read the file if it has changed; True if other rules are in force now."""
        if self._path is None:
            return False
        before = self.rules
        try:
            self._read(self._path)
            self._last_error = ""
        except (InvalidValue, OSError, UnicodeDecodeError) as error:
            if str(error) != self._last_error:
                warn("policy_file_refused", reason=error)
            self._last_error = str(error)
        if self.rules == before:
            return False
        info("policy_changed", rules=len(self.rules.rules))
        return True
