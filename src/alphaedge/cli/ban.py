"""``alphaedge ban``: shut an edge out at once, by rules in the policy files of running edges."""

from pathlib import Path
from typing import Annotated

import typer

from alphaedge.cli.base import exit_on_error
from alphaedge.errors import InvalidValue

EXAMPLES = """[bold]Examples[/]

alphaedge ban boston --config edge.toml

alphaedge ban boston --config berlin/edge.toml --config bonn/edge.toml

alphaedge ban boston --config edge.toml --undo

alphaedge ban --list --config edge.toml
"""


def ban(
    edge: Annotated[str | None, typer.Argument(help="Edge or region to ban.", metavar="EDGE")] = None,
    config: Annotated[
        list[Path] | None,
        typer.Option(help="Configuration of an edge that shall ban it. Repeat.", metavar="FILE"),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Lift the ban.")] = False,
    show: Annotated[bool, typer.Option("--list", help="List the banned edges.")] = False,
) -> None:
    """Have running edges ignore another one and refuse whatever it asks for; they notice within seconds.

    Writes two rules to the top of each edge's policy file. To shut an edge out of the whole fleet for good, revoke its
    certificate: alphaedge certs revoke.
    """
    with exit_on_error():
        from alphaedge.edge.trust.bans import add_ban, banned_edges, remove_ban
        from alphaedge.files import replace_file

        if (edge is None) != show or (show and undo):
            raise InvalidValue("EDGE", edge, "the name of an edge, or --list without one")
        for path in dict.fromkeys(map(_policy_file, config or [Path("edge.toml")])):
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            if edge is None:
                typer.echo(f"{path}: {', '.join(banned_edges(text)) or 'nobody is banned'}")
                continue
            changed = remove_ban(text, edge) if undo else add_ban(text, edge)
            if changed == text:
                typer.echo(f"{path}: {edge} is banned already")
                continue
            replace_file(path.resolve(), changed.encode(), durable=True)
            typer.echo(f"{path}: {edge} is {'no longer' if undo else 'now'} banned")


def _policy_file(config: Path) -> Path:
    """Return the policy file of an edge. The configuration is not checked: a ban must not fail for something else."""
    from alphaedge import toml
    from alphaedge.edge.trust.policy_file import DEFAULT_POLICY

    name = toml.read(config).get("policy", DEFAULT_POLICY)
    if not isinstance(name, str):
        raise InvalidValue("policy", name, "the name of a file")
    return config.parent / name
