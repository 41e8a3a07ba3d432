"""Checks that the edge of this container is alive; exits with 0 if it is. For HEALTHCHECK; standard library only.

It checks liveness, not readiness: an edge whose disk is full is not ready, and a restart would not help.
"""

import http.client
import ssl
import sys
import tomllib
from pathlib import Path
from typing import Final

TIMEOUT_SECONDS: Final = 5.0
LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # the address to use for an edge that listens on all


def check_live(config: Path) -> str:
    """Check the edge of this configuration; returns what is wrong, nothing if it is alive."""
    serve = tomllib.loads(config.read_text(encoding="utf-8")).get("serve", {})
    host, port = serve.get("host", "127.0.0.1"), serve.get("port", 8080)
    host = LOOPBACK.get(host, host)
    connection: http.client.HTTPConnection
    if serve.get("certificate"):
        context = ssl.create_default_context()  # the certificate is for the names that callers use
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(host, port, timeout=TIMEOUT_SECONDS, context=context)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/v2/health/live")
        status = connection.getresponse().status
    except OSError as error:
        return f"{host}:{port}: {error}"
    finally:
        connection.close()
    return "" if status == 200 else f"{host}:{port}: {status}"


if __name__ == "__main__":
    sys.exit(check_live(Path(sys.argv[1])) or 0)
