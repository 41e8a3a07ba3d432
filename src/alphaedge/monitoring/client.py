"""A fleet seen through one of its edges, from somewhere else: what ``status`` and ``dashboard`` ask."""

import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import msgspec

from alphaedge.errors import InvalidValue, Unreachable
from alphaedge.monitoring.frames import Fleet, Frame

PATIENCE: Final = 10.0  # seconds for an answer


@final
@dataclass(frozen=True)
class FleetClient:
    """One edge. url: of its public API. token: what it wants to see. authority: who signed its certificate, if not one
    that this machine trusts anyway."""

    url: str
    token: str | None = None
    authority: Path | None = None

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise InvalidValue("edge", self.url, "a URL such as http://localhost:8080")

    def fleet(self) -> Fleet:
        """The fleet until now."""
        request = urllib.request.Request(self._at("/fleet"), headers=self._headers())
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE, context=self._trust()) as answer:
                body = answer.read()
        except urllib.error.HTTPError as error:
            raise Unreachable(f"{self.url}: {_reason(error.code, error.read())}") from None
        except (OSError, urllib.error.URLError) as error:
            raise Unreachable(f"{self.url}: no answer ({getattr(error, 'reason', error)})") from None
        return self._read(body)

    async def stream(self, after: float) -> AsyncIterator[Frame]:
        """Frames later than a moment, as they come, until the edge ends the connection."""
        import aiohttp  # here, since `alphaedge status` does not need it

        timeout = aiohttp.ClientTimeout(total=None, sock_connect=PATIENCE)
        url = f"{self._at('/fleet/stream')}?after={after!r}"
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, headers=self._headers()) as session,
                session.get(url, ssl=self._trust() or True) as answer,
            ):
                if answer.status != 200:
                    raise Unreachable(f"{self.url}: {_reason(answer.status, await answer.read())}")
                buffer = b""
                async for chunk in answer.content.iter_any():
                    *whole, buffer = (buffer + chunk).split(b"\n\n")
                    for block in whole:
                        for line in block.split(b"\n"):
                            if line.startswith(b"data: "):
                                yield msgspec.json.decode(line[6:], type=Frame)
        except (aiohttp.ClientError, OSError, msgspec.MsgspecError) as error:
            raise Unreachable(f"{self.url}: the connection broke off ({error})") from None

    def _at(self, path: str) -> str:
        return self.url.rstrip("/") + path

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def _trust(self) -> ssl.SSLContext | None:
        if not self.url.startswith("https"):
            return None
        return ssl.create_default_context(cafile=self.authority)

    def _read(self, body: bytes) -> Fleet:
        try:
            return msgspec.json.decode(body, type=Fleet)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Unreachable(f"{self.url}: what it says is no fleet ({error})") from None


def _reason(status: int, body: bytes) -> str:
    try:
        told = msgspec.json.decode(body, type=dict[str, str]).get("error", "")
    except (msgspec.MsgspecError, UnicodeDecodeError):
        told = ""
    return f"it answers {status}" + (f" ({told})" if told else "")
