"""The configuration of a nats-server that is the directory of a fleet: which edge may write which key."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from alphaedge.edge.trust.certificates import Identity
from alphaedge.errors import InvalidValue

KEY_PREFIX: Final = "edges."
INBOX_PREFIX: Final = "_INBOX."  # followed by the key of the edge that receives answers there


def bucket_key(edge: str) -> str:
    """Return an edge's key in the bucket. A name may have dots anywhere, a key may not.

    >>> bucket_key("berlin.shop")
    'edges.berlin=shop'
    """
    return KEY_PREFIX + edge.replace(".", "=")


def edge_of_key(key: str) -> str:
    """Return the edge of a key in the bucket, with or without its prefix.

    >>> edge_of_key("edges.berlin=shop")
    'berlin.shop'
    """
    return key.removeprefix(KEY_PREFIX).replace("=", ".")


def news_prefix(bucket: str) -> str:
    """Return the subject under which edges publish what others lack; the key of the publishing edge follows."""
    return f"alphaedge.{bucket}.news."


def server_config(
    edges: Sequence[Identity],
    *,
    certs: Path,
    store: Path,
    name: str = "nats",
    bucket: str = "alphaedge",
    pinned: Sequence[str] = (),
) -> str:
    """Write the configuration of a nats-server: each edge may write its own announcement and read all.

    certs: a folder with ca.pem, and with NAME.pem and NAME.key of the server itself, issued like an edge's. store:
    where the server keeps its streams. The subject of an edge's certificate, in the order of RFC 2253, is its user.
    pinned: SHA-256 of the only keys that may connect, if any: a subject stays the same when a certificate is revoked
    and renewed. After you add, revoke or (with pinned keys) renew an edge, write the configuration again and reload the
    servers (``nats-server --signal reload``). A cluster needs its ``cluster`` block as well.
    """
    files = {"cert_file": f"{name}.pem", "key_file": f"{name}.key", "ca_file": "ca.pem"}
    tls: dict[str, Any] = {option: str(certs / file) for option, file in files.items()}
    settings: dict[str, Any] = {"tls": tls | {"verify_and_map": True}, "jetstream": {"store_dir": str(store)}}
    return _with_users(settings, edges, bucket, pinned)


def updated_config(text: str, edges: Sequence[Identity], *, bucket: str, pinned: Sequence[str] = ()) -> str:
    """Write the users and pinned keys of a configuration anew; everything else in it stays."""
    try:
        settings = json.loads(text)
        _ = settings["tls"]["cert_file"]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidValue("nats", f"{type(error).__name__}: {error}", "a file of alphaedge certs nats") from None
    return _with_users(settings, edges, bucket, pinned)


def _with_users(settings: dict[str, Any], edges: Sequence[Identity], bucket: str, pinned: Sequence[str]) -> str:
    api = [f"$JS.API.{call}.KV_{bucket}" for call in ("STREAM.INFO", "STREAM.CREATE", "CONSUMER.CREATE")]
    users, server = [], Path(settings["tls"]["cert_file"]).stem
    for identity in edges:
        if identity.edge == server:
            continue
        key = bucket_key(identity.edge)
        publish = [f"$KV.{bucket}.{key}", news_prefix(bucket) + key, *api]
        subscribe = [f"$KV.{bucket}.{KEY_PREFIX}>", f"{news_prefix(bucket)}>", f"{INBOX_PREFIX}{key}.>"]
        permissions = {"publish": publish, "subscribe": subscribe}
        users.append({"user": f"CN={identity.edge},OU={identity.region}", "permissions": permissions})
    settings["authorization"] = {"users": users}
    settings["tls"].pop("pinned_certs", None)
    if pinned:
        settings["tls"]["pinned_certs"] = sorted(pinned)
    return json.dumps(settings, indent=2) + "\n"
