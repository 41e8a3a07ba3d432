"""``alphaedge demo``: live edges on this machine that a person can watch."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from alphaedge.cli import options as shared
from alphaedge.cli.base import EXIT_INTERRUPTED, exit_on_error, plain_width
from alphaedge.cli.options import DATA_HELP, option
from alphaedge.errors import FleetError, check_number

if TYPE_CHECKING:
    from rich.console import Console

    from alphaedge.demo.fleet import DemoFleet
    from alphaedge.demo.run import DemoResult
    from alphaedge.demo.summary import DemoSummary
    from alphaedge.demo.workload import Workload

EXAMPLES = """[bold]Examples[/]

alphaedge demo

alphaedge demo --minutes 5 --keep

alphaedge demo --edges 4 --data movielens --out results/movielens

alphaedge demo --table examples/shops.csv --time when --edge shop --label sold --edges 3
"""
START_SECONDS, REPORT_SECONDS = 25.0, 10.0  # about what starting the edges and writing the report take
MIN_SECONDS: Final = 20.0  # of traffic
COMFORTABLE_EDGES_PER_CORE: Final = 4
TORCH_CACHE: Final = "TORCHINDUCTOR_CACHE_DIR"


def demo(
    context: typer.Context,
    edges: Annotated[int, typer.Option(help="Number of edges; the story needs at least 4.")] = 6,
    minutes: Annotated[float, typer.Option(help="Approximate duration.")] = 2.0,
    out: Annotated[Path, typer.Option(help="Folder for the report.", metavar="DIR")] = Path("results/demo"),
    keep: Annotated[bool, typer.Option("--keep", help="Keep serving at the end, until Ctrl-C.")] = False,
    calm: Annotated[bool, typer.Option("--calm", help="No story: no edge turns hostile, dies or is cut off.")] = False,
    data: Annotated[str | None, option(f"{DATA_HELP} Default: a synthetic store made for the demo.")] = None,
    table: shared.TableFile = None,
    time: shared.Time = None,
    edge: shared.Edge = None,
    label: shared.Label = None,
    ids: shared.Ids = None,
    categories: shared.Categories = None,
    numbers: shared.Numbers = None,
    only: shared.Only = False,
    last: shared.Last = None,
    task: shared.Task = None,
    seed: Annotated[int, typer.Option(help="Seed of the synthetic store.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON at the end, nothing else.")] = False,
) -> None:
    """Run live edges on this machine and watch them learn from each other while one of them turns hostile."""
    import tempfile

    from rich.console import Console

    console = Console(stderr=json, width=plain_width())
    with exit_on_error():
        check_number("edges", edges, low=2, high=50, whole=True)
        check_number("minutes", minutes, above=0)
        check_number("seed", seed, low=0, whole=True)
        from alphaedge.cli import dataset
        from alphaedge.demo.fleet import DemoFleet, cities
        from alphaedge.demo.run import MODEL_NAME
        from alphaedge.demo.workload import make_store, make_workload
        from alphaedge.simulation import config

        cores = os.cpu_count() or 1
        if edges > COMFORTABLE_EDGES_PER_CORE * cores:
            text = f"{edges} edges are many for {cores} cores: they start slowly and learn with a lag"
            console.print(f"[yellow]note[/] {text}", highlight=False)
        seconds = max(MIN_SECONDS, 60 * minutes - START_SECONDS - REPORT_SECONDS)
        overrides = dataset.data_settings(context.params)
        dataset.check_table(overrides)
        if data in (None, "synthetic") and table is None:
            events = make_store(edges, seconds, seed)
        else:
            events = dataset.load_dataset(config.build(dataset.drop_unset(overrides)), console)
        workload = make_workload(events, list(cities(edges)), MODEL_NAME, seconds)
        with (
            tempfile.TemporaryDirectory(prefix="alphaedge-demo-") as folder,
            _interrupt_on_sigterm(),
            _torch_cache(folder),
            DemoFleet(Path(folder), cities(edges), model=workload.model, method=workload.method) as fleet,
        ):
            try:
                _run(fleet, workload, seconds, console, out=out, calm=calm, keep=keep, json=json)
            except FleetError as error:
                raise FleetError(f"{error}; logs: {fleet.save_logs(out / 'logs')}") from None


def _run(
    fleet: "DemoFleet",
    workload: "Workload",
    seconds: float,
    console: "Console",
    *,
    out: Path,
    calm: bool,
    keep: bool,
    json: bool,
) -> None:
    """Start the edges, run the scenario and report; raises typer.Exit if interrupted."""
    import asyncio

    from alphaedge.demo.report import save_report
    from alphaedge.demo.summary import summarize

    fleet.start()
    names = list(fleet.regions)
    console.print(f"dashboard: {fleet.url(names[0])}/dashboard", highlight=False)
    result = asyncio.run(_demonstrate(fleet, workload, seconds, console, calm=calm))
    if result is None or result.replay.stopped:
        raise typer.Exit(EXIT_INTERRUPTED)
    summary = summarize(result, fleet.regions)
    page = save_report(result, summary, out)
    if json:
        import msgspec

        sys.stdout.write(msgspec.json.encode(summary).decode() + "\n")
    else:
        _print_summary(summary, console)
    console.print(f"report: {page}", highlight=False)
    if keep:
        console.print("the edges keep serving; stop them with Ctrl-C", highlight=False)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


async def _demonstrate(
    fleet: "DemoFleet", workload: "Workload", seconds: float, console: "Console", *, calm: bool
) -> "DemoResult | None":
    import asyncio

    from alphaedge.demo.run import Demonstration, demo_options
    from alphaedge.demo.scenario import make_scenario
    from alphaedge.demo.terminal import open_display
    from alphaedge.demo.workload import BATCH_SIZE

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    scenario = [] if calm else make_scenario(list(workload.streams), workload.clusters)
    options = demo_options(workload.streams, seconds=seconds, batch_size=BATCH_SIZE, per_request=5)
    with open_display(console) as show:
        demonstration = Demonstration(
            fleet, workload.data, workload.streams, seconds=seconds, scenario=scenario, options=options, show=show
        )
        return await demonstration.run(stop)


@contextlib.contextmanager
def _torch_cache(folder: str) -> Iterator[None]:
    """Put torch's compile cache, which the edges create even if they compile nothing, into the temporary folder."""
    before = os.environ.get(TORCH_CACHE)
    os.environ.setdefault(TORCH_CACHE, f"{folder}/torch")
    try:
        yield
    finally:
        if before is None:
            del os.environ[TORCH_CACHE]


@contextlib.contextmanager
def _interrupt_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end the demo like Ctrl-C, so that edges stop and files are removed."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _print_summary(summary: "DemoSummary", console: "Console") -> None:
    from rich import box
    from rich.table import Table

    from alphaedge.demo.report import COLUMNS, summary_rows
    from alphaedge.demo.verdict import verdict

    title = f"{summary.metric} of predictions: edges that learn together, beside their twins that learn alone"
    table = Table(title=title, box=box.SIMPLE_HEAD)
    for number, name in enumerate(COLUMNS):
        table.add_column(name, justify="left" if number < 2 else "right")
    for row in summary_rows(summary):
        table.add_row(*row)
    console.print(table)
    for sentence in verdict(summary):
        console.print(sentence, highlight=False)
