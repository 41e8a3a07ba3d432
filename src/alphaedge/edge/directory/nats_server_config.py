"""The configuration of a nats-server that is the directory of a fleet: which edge may write which key."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from alphaedge.edge.trust.certificates import Identity

KEY_PREFIX: Final = "edges."
INBOX_PREFIX: Final = "_INBOX."  # followed by the key of the edge that receives answers there


def bucket_key(edge: str) -> str:
    """Return an edge's key in the bucket. A name may have dots anywhere, a key may not.

    >>> bucket_key("berlin.shop")
    'edges.berlin=shop'
    """
    return KEY_PREFIX + edge.replace(".", "=")


def server_config(
    edges: Sequence[Identity], *, certs: Path, store: Path, name: str = "nats", bucket: str = "alphaedge"
) -> str:
    """Write the configuration of a nats-server: each edge may write its own announcement and read all.

    certs: a folder with ca.pem, and with NAME.pem and NAME.key of the server itself, issued like an edge's. store:
    where the server keeps its streams. The subject of an edge's certificate, in the order of RFC 2253, is its user.
    After you add an edge, write the configuration again and reload the servers (``nats-server --signal reload``). A
    cluster needs its ``cluster`` block as well.
    """
    api = [f"$JS.API.{call}.KV_{bucket}" for call in ("STREAM.INFO", "STREAM.CREATE", "CONSUMER.CREATE")]
    users = [
        {
            "user": f"CN={identity.edge},OU={identity.region}",
            "permissions": {
                "publish": [f"$KV.{bucket}.{bucket_key(identity.edge)}", *api],
                "subscribe": [f"$KV.{bucket}.{KEY_PREFIX}>", f"{INBOX_PREFIX}{bucket_key(identity.edge)}.>"],
            },
        }
        for identity in edges
    ]
    files = {"cert_file": f"{name}.pem", "key_file": f"{name}.key", "ca_file": "ca.pem"}
    tls: dict[str, Any] = {option: str(certs / file) for option, file in files.items()}
    jetstream, authorization = {"store_dir": str(store)}, {"users": users}
    settings = {"tls": tls | {"verify_and_map": True}, "jetstream": jetstream, "authorization": authorization}
    return json.dumps(settings, indent=2) + "\n"
