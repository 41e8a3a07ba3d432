"""The configuration of a nats-server that is the directory of a fleet: who may write which key."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from alphaedge.edge.trust.certificates import Identity

FOLDER, INBOX = "edges.", "_INBOX."  # what all keys begin with, and where answers go: then the key of who has asked


def key(edge: str) -> str:
    """An edge's key in the bucket. Names may have dots at any place, which keys may not.

    >>> key("berlin.shop")
    'edges.berlin=shop'
    """
    return FOLDER + edge.replace(".", "=")


def server_config(
    edges: Sequence[Identity], *, certs: Path, store: Path, name: str = "nats", bucket: str = "alphaedge"
) -> str:
    """The configuration of a nats-server for a fleet: an edge may write its own record and read all.

    certs: a folder with ca.pem, and with NAME.pem and NAME.key of the server itself, issued like an edge's. An edge
    shows its certificate, and the subject of that, in the order of RFC 2253, is a user. After a new edge write it again
    and tell the servers (``nats-server --signal reload``). A cluster needs its ``cluster`` block beside it.
    """
    api = [f"$JS.API.{call}.KV_{bucket}" for call in ("STREAM.INFO", "STREAM.CREATE", "CONSUMER.CREATE")]
    users = [
        {
            "user": f"CN={one.edge},OU={one.region}",
            "permissions": {
                "publish": [f"$KV.{bucket}.{key(one.edge)}", *api],
                "subscribe": [f"$KV.{bucket}.{FOLDER}>", f"{INBOX}{key(one.edge)}.>"],
            },
        }
        for one in edges
    ]
    files = {"cert_file": f"{name}.pem", "key_file": f"{name}.key", "ca_file": "ca.pem"}
    tls: dict[str, Any] = {what: str(certs / file) for what, file in files.items()}
    jetstream, authorization = {"store_dir": str(store)}, {"users": users}
    settings = {"tls": tls | {"verify_and_map": True}, "jetstream": jetstream, "authorization": authorization}
    return json.dumps(settings, indent=2) + "\n"
