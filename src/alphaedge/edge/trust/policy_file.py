"""The policy file of a running edge: taken up again whenever it changes."""

from pathlib import Path
from typing import final

from alphaedge.edge.log import info, warn
from alphaedge.edge.trust.policy import Policy
from alphaedge.errors import InvalidValue


@final
class PolicyFile:
    """The rules that hold now. At the start the file must be good; later one that is not leaves them as they are."""

    def __init__(self, path: Path | None) -> None:
        self._path, self._stamp, self._trouble = path, (0, 0), ""
        self.rules = Policy()
        if path is not None:
            self._read(path)

    def _read(self, path: Path) -> None:
        found = path.stat()
        stamp = (found.st_mtime_ns, found.st_size)
        if stamp != self._stamp:
            self.rules, self._stamp = Policy.parse(path.read_text(encoding="utf-8")), stamp

    def refresh(self) -> bool:
        """Look whether the file has changed; whether other rules hold now."""
        if self._path is None:
            return False
        before = self.rules
        try:
            self._read(self._path)
            self._trouble = ""
        except (InvalidValue, OSError, UnicodeDecodeError) as error:
            if str(error) != self._trouble:
                warn("the policy stays as it was", reason=error)
            self._trouble = str(error)
        if self.rules == before:
            return False
        info("the policy has changed", rules=len(self.rules.rules))
        return True
