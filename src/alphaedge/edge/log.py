"""What an edge says of itself while it runs: one line an event, JSON for machines or text for people.

Events have a name and fields. Never among the fields: features, ids, tokens, keys or secrets.
"""

import json
import logging
import sys
import time
from typing import Any, Final, Literal, TextIO

Style = Literal["json", "text"]
LOGGER: Final = logging.getLogger("alphaedge.edge")


def info(event: str, **fields: Any) -> None:
    """Something that was to be expected."""
    LOGGER.info(event, extra={"fields": fields})


def warn(event: str, **fields: Any) -> None:
    """Something that somebody may want to look into."""
    LOGGER.warning(event, extra={"fields": fields})


def setup(edge: str, process: str, style: Style, stream: TextIO | None = None) -> None:
    """Write events of this process as lines, to standard error unless told otherwise."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Lines(edge, process, style))
    LOGGER.handlers = [handler]
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False
    others = logging.getLogger()  # what the libraries have to info, in the same form
    others.handlers = [handler]
    others.setLevel(logging.WARNING)


class _Lines(logging.Formatter):
    def __init__(self, edge: str, process: str, style: Style) -> None:
        super().__init__()
        self._who, self._json = {"edge": edge, "process": process}, style == "json"

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = getattr(record, "fields", {})
        if record.exc_info:
            fields = {**fields, "exception": self.formatException(record.exc_info)}
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z"
        if self._json:
            head = {"time": moment, "level": record.levelname.lower(), **self._who}
            return json.dumps({**head, "event": record.getMessage(), **fields}, default=str)
        shown = " ".join(f"{name}={value}" for name, value in fields.items())
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        return f"{moment} {self._who['edge']}/{self._who['process']} {level}{record.getMessage()} {shown}".rstrip()
