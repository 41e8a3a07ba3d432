"""What the HTTP clients of an edge share: its URL, the token, whom to trust, and the reason of a refusal."""

import ssl
import urllib.request
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from alphaedge.errors import InvalidValue

MAX_REASON_LENGTH: Final = 300  # characters of an error that an edge sent


def check_url(field: str, url: str, *, allow_path: bool = False) -> str:
    """Return the URL of an edge without a slash at its end; refuse anything but http(s)://host:port.

    field: named in the error. allow_path: whether a path may follow, for an edge behind a proxy.

    >>> check_url("url", "http://127.0.0.1:8080/")
    'http://127.0.0.1:8080'
    """
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment or parts.username is not None:
        raise InvalidValue(field, url, "http://host:port or https://host:port")
    path = parts.path.rstrip("/")
    if path and not allow_path:
        raise InvalidValue(field, url, "http://host:port or https://host:port")
    return f"{parts.scheme}://{parts.netloc}{path}"


def authorization(token: str | None) -> dict[str, str]:
    """Return the header that shows a token; none without a token."""
    if not token:
        return {}
    if not (token.isascii() and token.isprintable()):  # the error must not show the token
        raise InvalidValue("token", f"{len(token)} characters", "printable ones of ASCII: it goes into a header")
    return {"Authorization": f"Bearer {token}"}


def tls_context(authority: Path | None) -> ssl.SSLContext | None:
    """Return a context that trusts only ``authority``, a file with a certificate; None: whom the system trusts."""
    if authority is None:
        return None
    try:
        return ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise InvalidValue("authority", str(authority), f"a file with a certificate ({error})") from None


def is_ready(url: str, timeout_seconds: float = 2.0) -> bool:
    """Whether an edge says that it can predict. Blocks."""
    try:
        with urllib.request.urlopen(f"{url}/v2/health/ready", timeout=timeout_seconds) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except OSError:  # no answer, or one that says no
        return False


def refusal_reason(body: bytes) -> str:
    """Return the reason in the body of an answer that refuses: its field ``error``, else its text.

    >>> refusal_reason(b'{"error": "send the token"}')
    'send the token'
    """
    try:
        text = str(msgspec.json.decode(body)["error"])
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError):
        text = body.decode(errors="replace")
    return text if len(text) <= MAX_REASON_LENGTH else text[:MAX_REASON_LENGTH] + "..."
