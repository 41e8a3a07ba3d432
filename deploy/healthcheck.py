"""Is the edge of this container alive? Ends with 0 if it says so. For HEALTHCHECK, with the standard library alone.

Alive, not ready: an edge whose disk is full is not ready, and to start it again would not help.
"""

import http.client
import ssl
import sys
import tomllib
from pathlib import Path
from typing import Final

PATIENCE: Final = 5.0  # seconds
HERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # where an edge that listens everywhere is reached


def trouble(config: Path) -> str:
    """What is wrong with the edge of this configuration; nothing if it is alive."""
    serve = tomllib.loads(config.read_text(encoding="utf-8")).get("serve", {})
    host, port = serve.get("host", "127.0.0.1"), serve.get("port", 8080)
    host = HERE.get(host, host)
    link: http.client.HTTPConnection
    if serve.get("certificate"):
        context = ssl.create_default_context()  # it is for the names that callers use: this one is not among them
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        link = http.client.HTTPSConnection(host, port, timeout=PATIENCE, context=context)
    else:
        link = http.client.HTTPConnection(host, port, timeout=PATIENCE)
    try:
        link.request("GET", "/v2/health/live")
        status = link.getresponse().status
    except OSError as error:
        return f"{host}:{port}: {error}"
    finally:
        link.close()
    return "" if status == 200 else f"{host}:{port}: {status}"


if __name__ == "__main__":
    sys.exit(trouble(Path(sys.argv[1])) or 0)
