"""``alphaedge audit``: attack what edges publish, and say what a peer could learn."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from alphaedge.cli import options
from alphaedge.cli.base import exit_on_error
from alphaedge.cli.options import DATA_HELP, option

EXAMPLES = """[bold]Examples[/]

alphaedge audit --quick

alphaedge audit --data movielens --rows 20000 --epsilon 1 --user user

alphaedge audit --config private.toml --canaries 400 --json audit.json

alphaedge audit --edge-config berlin/edge.toml
"""
EXIT_BROKEN: Final = 1
OF_LIVE_EDGES: Final = ("edge_config", "canaries", "quick", "seed", "json")


def audit(
    context: typer.Context,
    data: Annotated[str | None, option(f"{DATA_HELP} Default: synthetic.")] = None,
    table: options.TableFile = None,
    time: options.Time = None,
    edge: options.Edge = None,
    label: options.Label = None,
    ids: options.Ids = None,
    categories: options.Categories = None,
    numbers: options.Numbers = None,
    only: options.Only = False,
    last: options.Last = None,
    task: options.Task = None,
    rows: options.Rows = None,
    config_file: options.ConfigFile = None,
    epsilon: Annotated[
        float | None, option("The promise to audit. Default: what --config says in method.privacy, or 8.")
    ] = None,
    user: Annotated[
        str | None,
        option(
            "Field of the users, who are protected with all they do. Default: as --config, or events.", metavar="COL"
        ),
    ] = None,
    edge_config: Annotated[
        Path | None,
        option(
            "Audit the live edge of this configuration by its own data folder, running or not; writes nothing there.",
            "--edge-config",
            metavar="FILE",
        ),
    ] = None,
    canaries: Annotated[int, typer.Option(help="Events or users to plant. r of them can show about ln(r/3).")] = 200,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer events and shadow models.")] = False,
    seed: Annotated[int, typer.Option(help="For canaries, coins, noise and shadow models.")] = 0,
    json: options.JsonFile = None,
) -> None:
    """Attack what edges publish, and say what a peer could learn. Exit code 1: more than was promised."""
    from rich.console import Console

    from alphaedge.audit import live_words, words
    from alphaedge.audit.audit import audit_simulation
    from alphaedge.audit.live_edge import audit_live_edge
    from alphaedge.cli import dataset
    from alphaedge.cli.output import check_writable, prints_json, write_json
    from alphaedge.cli.progress import with_phases
    from alphaedge.errors import check_number
    from alphaedge.settings import PrivacySettings
    from alphaedge.simulation import config

    console = Console(stderr=prints_json(json))
    with exit_on_error():
        check_number("canaries", canaries, low=1, whole=True)
        check_number("seed", seed, low=0, whole=True)
        if edge_config is not None:
            _refuse_simulation(context)
            check_writable(None, json)
            live = with_phases(
                console,
                lambda report: audit_live_edge(edge_config, canaries=canaries, quick=quick, seed=seed, report=report),
            )
            said, broken = live_words.lines(live), live.broken
            summary = _live_summary(live, said)
        else:
            given = dataset.drop_unset(dataset.data_settings(context.params) | {"rows": rows})
            if config_file is None:
                dataset.check_table(given)
            promise = dataset.drop_unset({"epsilon": epsilon, "user": user})
            given["method"] = {"privacy": promise}
            check_writable(None, json)
            settings = config.load(config_file, given) if config_file else config.build(given)
            settings = dataset.resolve(settings, console)
            privacy = (settings.method.privacy or PrivacySettings()).make()
            found = with_phases(
                console,
                lambda report: audit_simulation(
                    settings, privacy, canaries=canaries, quick=quick, seed=seed, report=report
                ),
            )
            said, broken = words.lines(found), found.broken
            summary = _summary(found, said)
        if json is not None:
            write_json(summary, json)
    if not prints_json(json):
        for number, line in enumerate(said):
            style = ("red" if broken else "green") if number == 0 else None
            console.print(line, style=style, highlight=False, markup=False, soft_wrap=True)
    if broken:
        raise typer.Exit(EXIT_BROKEN)


def _refuse_simulation(context: typer.Context) -> None:
    """Refuse options that say what to simulate beside --edge-config."""
    from alphaedge.errors import InvalidValue

    for param in context.command.params:
        value = context.params.get(param.name or "")
        if param.name not in OF_LIVE_EDGES and value not in (None, False, [], ()):
            allowed = "nothing beside --edge-config: the edge's own model, method and events are audited"
            raise InvalidValue(param.opts[0], value if isinstance(value, float | int) else str(value), allowed)


def _live_summary(found: Any, said: list[str]) -> dict[str, Any]:
    about = {"verdict": said[0], "text": said, "edge": found.edge, "publication": found.publication}
    promise = None if found.promise is None else _summary(found.promise, said)
    return (promise or {"privacy": None}) | about | {"broken": found.broken, "passed_over": found.passed_over}


def _summary(found: Any, said: list[str]) -> dict[str, Any]:
    return {
        "verdict": said[0],
        "text": said,
        "edge": found.edge,
        "events": found.events,
        "privacy": found.privacy,
        "broken": found.broken,
        "epsilon_promised": found.privacy.epsilon,
        "epsilon_observed": found.observed,
        "canaries": found.canaries.guesses,
        "tallies": found.tallies.guesses if found.tallies is not None else None,
        "private": found.private,
        "plain": found.plain,
    }
