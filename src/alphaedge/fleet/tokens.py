"""The tokens that the edges of a fleet folder ask their callers for: each edge has one of its own."""

import secrets
from pathlib import Path
from typing import Final

from alphaedge import toml
from alphaedge.edge.config import EdgeConfig
from alphaedge.errors import InvalidValue
from alphaedge.files import replace_file
from alphaedge.fleet.layout import EdgeAddress

TOKEN_FILE: Final = "token.txt"


def write_token(folder: Path) -> None:
    """Write a new token into the folder of an edge, for its owner only."""
    replace_file(folder / TOKEN_FILE, secrets.token_hex(32).encode(), mode=0o600)


def read_token(fleet: Path, edge: EdgeAddress) -> str | None:
    """Read the token that an edge asks for, as its configuration in the fleet folder says; None if for none."""
    own = fleet / edge.name
    file = toml.load(own / "edge.toml", EdgeConfig).serve.token
    try:
        return (own / file).read_text(encoding="utf-8").strip() if file else None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue("serve.token", str(own / str(file)), f"a file with a token ({error})") from None
