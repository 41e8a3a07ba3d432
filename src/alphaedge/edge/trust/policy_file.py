"""The policy file of a running edge, read again whenever it changes."""

from pathlib import Path
from typing import final

from alphaedge.edge.log import info, warn
from alphaedge.edge.trust.policy import Policy
from alphaedge.errors import InvalidValue


@final
class PolicyFile:
    """The rules in force. The file must be valid at the start; later, one that is not leaves the rules as they are."""

    def __init__(self, path: Path | None) -> None:
        self._path, self._version, self._last_error = path, (0, 0), ""
        self.rules = Policy()
        if path is not None:
            self._read(path)

    def _read(self, path: Path) -> None:
        stat = path.stat()
        version = (stat.st_mtime_ns, stat.st_size)
        if version != self._version:
            self.rules, self._version = Policy.parse(path.read_text(encoding="utf-8")), version

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
