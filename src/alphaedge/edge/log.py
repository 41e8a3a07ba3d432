"""Structured logs of an edge: one event per line, as JSON for machines or as text for people.

An event is a short constant with fields. Features, ids, tokens, keys and secrets never appear among the fields.
"""

import json
import logging
import sys
import time
from typing import Any, Final, Literal, TextIO

Style = Literal["json", "text"]
LOGGER: Final = logging.getLogger("alphaedge.edge")


def info(event: str, **fields: Any) -> None:
    """Log an expected event."""
    LOGGER.info(event, extra={"fields": fields})


def warn(event: str, **fields: Any) -> None:
    """Log an event that an operator may want to look into."""
    LOGGER.warning(event, extra={"fields": fields})


def exception(event: str, **fields: Any) -> None:
    """Log an event with the traceback of the exception that is being handled."""
    LOGGER.exception(event, extra={"fields": fields})


def configure(edge: str, process: str, style: Style, stream: TextIO | None = None) -> None:
    """Write the events of this process, and warnings of libraries, to ``stream``, which is standard error by default.

    edge, process: names that every line carries.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_EventFormatter(edge, process, style))
    LOGGER.handlers = [handler]
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)


class _EventFormatter(logging.Formatter):
    def __init__(self, edge: str, process: str, style: Style) -> None:
        super().__init__()
        self._source, self._json = {"edge": edge, "process": process}, style == "json"

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = getattr(record, "fields", {})
        if record.exc_info:
            fields = {**fields, "exception": self.formatException(record.exc_info)}
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z"
        if self._json:
            head = {"time": moment, "level": record.levelname.lower(), **self._source}
            return json.dumps({**head, "event": record.getMessage(), **fields}, default=str)
        shown = " ".join(f"{name}={value}" for name, value in fields.items())
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        return (
            f"{moment} {self._source['edge']}/{self._source['process']} {level}{record.getMessage()} {shown}".rstrip()
        )
