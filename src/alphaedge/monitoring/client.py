"""The client for a fleet's state, read through one of its edges: used by ``status``, ``dashboard`` and ``demo``."""

import urllib.error
import urllib.request
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final, final

import msgspec

from alphaedge.errors import Unreachable
from alphaedge.http_client import authorization, check_url, refusal_reason, tls_context
from alphaedge.monitoring.frames import Fleet, Frame

REQUEST_TIMEOUT_SECONDS: Final = 10.0
STREAM_SILENCE_SECONDS: Final = 30.0  # an edge that streams sends a comment every ten seconds


@final
class FleetClient:
    """Reads the fleet through one edge. All errors are ``Unreachable``.

    url: of its public API. token: what it asks callers for, if anything. authority: a file with the certificate that
    signed the edge's own; None: whom the system trusts.
    """

    def __init__(self, url: str, token: str | None = None, authority: Path | None = None) -> None:
        self.url = check_url("edge", url, allow_path=True)
        self._headers, self._tls = authorization(token), tls_context(authority)

    def fetch_fleet(self) -> Fleet:
        """Return all frames until now. Blocks."""
        request = urllib.request.Request(f"{self.url}/fleet", headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_TIMEOUT_SECONDS, context=self._tls) as answer:
                body = answer.read()
        except urllib.error.HTTPError as error:
            raise Unreachable(f"{self.url}: {error.code}: {refusal_reason(error.read())}") from None
        except OSError as error:  # URLError is one
            raise Unreachable(f"{self.url}: no answer ({getattr(error, 'reason', error)})") from None
        try:
            return msgspec.json.decode(body, type=Fleet)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Unreachable(f"{self.url}: its answer is not a fleet ({error})") from None

    async def stream(self, after: float) -> AsyncGenerator[Frame, None]:
        """Yield frames later than ``after`` (seconds since 1970) as they come, until the edge ends the stream.

        An edge that falls silent for a while is ``Unreachable``.
        """
        import aiohttp  # here, since `alphaedge status` starts faster without it

        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=REQUEST_TIMEOUT_SECONDS, sock_read=STREAM_SILENCE_SECONDS
        )
        url = f"{self.url}/fleet/stream?after={after!r}"
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, headers=self._headers) as session,
                session.get(url, ssl=self._tls or True) as answer,
            ):
                if answer.status != 200:
                    raise Unreachable(f"{self.url}: {answer.status}: {refusal_reason(await answer.read())}")
                rest = b""
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        if line.startswith(b"data: "):
                            yield msgspec.json.decode(line.removeprefix(b"data: "), type=Frame)
        except (aiohttp.ClientError, OSError, msgspec.MsgspecError) as error:
            raise Unreachable(f"{self.url}: the stream broke off ({error})") from None
