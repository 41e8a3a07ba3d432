"""Every key of the two configuration files: that of an edge, and that of a simulation."""

import re
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any, Final, NamedTuple, get_args

import msgspec

from alphaedge.core.aggregation import Learned
from alphaedge.core.methods import AlphaEdge, Method
from alphaedge.core.selection import Greedy
from alphaedge.edge.config import EdgeConfig
from alphaedge.settings import MethodSettings
from alphaedge.simulation.config import Settings
from alphaedge_docs import docstrings
from alphaedge_docs.markdown import anchored, kind, plain, sentence, table

# Where a key of the method has its default and its meaning.
METHOD: Final[Mapping[str, tuple[Any, str]]] = {
    "aggregate_every": (AlphaEdge(), "aggregate_every"),
    "peers": (Greedy(), "peers"),
    "replace": (Greedy(), "replace"),
    "select_every": (Greedy(), "every"),
    "weight_rate": (Learned(), "rate"),
    "weight_steps": (Learned(), "steps"),
    "newcomer": (Learned(), "newcomer"),
    "remember": (Learned(), "remember"),
    "gather": (Learned(), "batches"),
    "train_on_aggregation": (AlphaEdge(), "train_on_aggregation"),
    "adopt_rows": (AlphaEdge(), "adopt_rows"),
    "home": (AlphaEdge(), "home"),
}
# What is to be said in other words than a docstring or a comment has, of the keys of an edge.
OF_AN_EDGE: Final[Mapping[str, str]] = {
    "policy": "a file with rules that say who may learn from whom",
    "model.name": "in the URLs: `/v2/models/model/infer`",
    "model.builtin": "a model that is there: `deepfm` learns ids and how they go together, `mlp` is plain layers. "
    "Either this or `factory`",
    "model.factory": "`package.module:function` that makes an `nn.Module` or an `alphaedge.Model` of your own",
    "model.task": "whether outcomes are 0 or 1, or numbers",
    "model.hidden": "widths of the hidden layers of a built-in model",
    "model.rate": "of the model's Adam",
    "model.id_rows": "how rows of ids learn: by Adagrad, or by one of two readings of Adam",
    "model.id_rate": "of Adagrad, for rows of ids",
    "model.local_steps": "gradient steps on each batch",
    "model.fields.name": "the name by which requests give it",
    "model.fields.kind": "what it is: `id` anything, a number or text, that has rows of its own; `category` a whole "
    "number from 0 to size - 1; `set` a number for each of size codes; `number` size measurements",
    "model.tables.fields": "the fields that hold the ids",
    "model.tables.parameters": "the parameters that have a row for each id, as in `named_parameters()`",
    "method.name": "which method: `alphaedge`, or one of its rivals",
    "serve.host": "the address that callers reach it at; `0.0.0.0` is every address of the machine",
    "serve.port": "the port for callers; 0 is any free one, which is printed",
    "serve.token": "a file with the token that callers must show",
    "serve.certificate": "a file: HTTPS for callers",
    "serve.key": "the file with the key of that certificate",
    "serve.cores": "`apart` gives the learner the last core and the server the others: for a machine with one edge",
    "peers.host": "the address that the port for other edges listens at",
    "peers.port": "the port for other edges; 0 is any free one, which is printed",
    "peers.seeds": "`host:port` of some edges to begin with",
    "peers.certificate": "the edge's own, of `alphaedge certs`; without it the edge learns alone",
    "peers.key": "the file with the key of that certificate",
    "peers.authority": "the fleet's authority, `ca.pem`",
    "peers.nats.servers": "of an existing cluster, such as `tls://nats.example.com:4222`",
    "peers.nats.bucket": "the key-value bucket that the edges' records are in",
    "peers.nats.down_after": "seconds without a sign of life after which an edge counts as down",
    "feedback.silence": "what no outcome within the window means: nothing, or a no",
}
# ... of those of both files.
OF_BOTH: Final[Mapping[str, str]] = {
    "method.peers": "K: how many peers an edge has",
    "method.replace": "K': how many of the weakest give way at a selection",
    "method.select_every": "m: aggregations between two selections",
    "method.aggregate_every": "E: batches from one aggregation to the next",
    "method.home": "whether the edge keeps a twin that never mixes, and predicts with it where it is better",
}
# ... and of those of a simulation.
OF_A_SIMULATION: Final[Mapping[str, str]] = {
    "data": "which data: `synthetic`, a public data set, or `table`",
    "methods": "names of the methods that are compared",
    "local_steps": "gradient steps on each batch",
    "model": "one of the base models of the data; none is its first",
    "rows": "at most so many events, those after the first quarter; none is all",
    "batch_size": "events in a batch; none is what suits the data",
    "rate": "of the model's Adam; none is what suits the data and the model",
    "id_rows": "how rows of ids learn: by Adagrad, or by one of two readings of Adam; none is what suits the model",
    "clock": "whether batches follow the events' times, or all edges go in lock-step",
    "executor": "all edges in one call, or one after the other, which is slow, for debugging, and agrees",
    "table.time": "column: when it happened, a date, a date with time of day, or a number",
    "table.edge": "column: where it happened",
    "table.label": "column: the outcome",
    "table.ids": "columns of ids to learn from",
    "table.categories": "columns of few values to learn from",
    "table.numbers": "columns of numbers to learn from; if no column is named, all others are guessed",
    "conditions.joins": "for some edges, the moment at which they appear, 0 to 1 of the run",
    "conditions.leaves": "for some edges, the moment at which they go for good, 0 to 1 of the run",
    "store.edges": "regions",
    "store.events": "events of a region, on average",
    "store.users": "customers of a region",
    "store.clusters": "hidden groups of regions with the same taste",
    "store.items": "items in the catalogue",
    "store.categories": "categories of items",
    "store.new_items": "share of the items that appear only in the course of the run",
    "store.changes": "sudden changes of what sells, each in one cluster",
    "store.drift": "how far a cluster's taste turns into another over the run, 0 to 1",
    "store.pull": "how much an item's own appeal decides",
    "store.seed": "of the store; each run adds its own number",
}
TOPICS: Final[Mapping[str, str]] = {
    "model": "what it learns",
    "model.fields": "the inputs, one by one",
    "model.tables": "id tables of an own module",
    "method": "how edges learn from each other",
    "serve": "the API for callers",
    "peers": "the port for other edges",
    "peers.nats": "NATS instead of seeds",
    "feedback": "outcomes",
    "store": "the synthetic store",
    "table": "a table of one's own",
    "conditions": "what the world does",
}


class Key(NamedTuple):
    """One key of a configuration file."""

    section: str
    name: str
    annotation: Any
    default: Any  # msgspec.NODEFAULT if it has to be given
    owner: type[msgspec.Struct]

    @property
    def path(self) -> str:
        """With its section."""
        return f"{self.section}.{self.name}".lstrip(".")


def keys(struct: type[msgspec.Struct], section: str = "") -> Iterator[Key]:
    """All keys of a file; what is a section of its own comes after the section that it is in."""
    inner = []
    for field in msgspec.structs.fields(struct):
        below = next((t for t in _types(field.type) if isinstance(t, type) and issubclass(t, msgspec.Struct)), None)
        if below is not None:
            inner.append((f"{section}.{field.name}".lstrip("."), below))
        else:
            default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory
            yield Key(section, field.name, field.type, default() if callable(default) else default, struct)
    for path, below in inner:
        yield from keys(below, path)


def _types(annotation: Any) -> Iterator[Any]:
    yield annotation
    for inner in get_args(annotation):
        yield from _types(inner)


def example() -> dict[str, str]:
    """What the file that ``alphaedge edge init`` writes says of each key."""
    text = resources.files("alphaedge.edge").joinpath("example.toml").read_text(encoding="utf-8")
    found, section = dict[str, str](), ""
    for line in text.splitlines():
        if head := re.match(r"\[([a-z.]+)\]", line):
            section = head[1] + "."
        elif line.startswith("[["):
            section = "one of several."
        elif key := re.match(r"(?:# )?([a-z_]+) = .*?\s# (.+)", line):
            found[section + key[1]] = key[2]
    return found


def edge() -> str:
    """The configuration of an edge, section by section."""
    return _sections(EdgeConfig, "edge.toml")


def simulation() -> str:
    """The configuration of a simulation, section by section."""
    return _sections(Settings, "config.toml")


def _sections(struct: type[msgspec.Struct], file: str) -> str:
    found = list(keys(struct))
    spoken = example() if struct is EdgeConfig else {}
    made = []
    for section in dict.fromkeys(key.section for key in found):
        several = any(section == path for path in ("model.fields", "model.tables"))
        name = f"[[{section}]]" if several else f"[{section}]"
        head = f"`{name}`: {TOPICS[section]}" if section else f"At the top of `{file}`"
        rows = [_row(key, spoken, file) for key in found if key.section == section]
        intro = docstrings.summary(rows and next(k.owner for k in found if k.section == section))
        made.append(f"### {head} {{ #{file.partition('.')[0]}-{section or 'top'} }}\n\n")
        if section == "method":
            made.append(_about_method())
        elif section == "model":
            made.append(intro + "\n\n")
        made.append(table(("key", "type", "default", "meaning"), rows) + "\n")
    return "".join(made)


def _about_method() -> str:
    text = docstrings.without_fields(MethodSettings, [])
    return text + "\nThe defaults below are those of `alphaedge`.\n\n"


def _row(key: Key, spoken: Mapping[str, str], file: str) -> tuple[str, str, str, str]:
    prefix = "key" if file == "edge.toml" else "setting"
    default, meaning = key.default, _meaning(key, spoken)
    if key.owner is not Settings and key.section == "method" and key.name in METHOD:
        owner, name = METHOD[key.name]
        default = getattr(owner, name)
        default = default if isinstance(default, bool | int | float) else default is not None
    shown = (
        "required" if default is msgspec.NODEFAULT else "none" if default in (None, (), {}) else f"`{plain(default)}`"
    )
    return anchored(prefix, key.path, key.name), kind(key.annotation), shown, sentence(meaning)


def _meaning(key: Key, spoken: Mapping[str, str]) -> str:
    """From what is said for users, then from the code."""
    said = {**OF_BOTH, **(OF_AN_EDGE if spoken else OF_A_SIMULATION)}
    if key.path in said:
        return said[key.path]
    if key.path in spoken:
        return spoken[key.path]
    if key.section == "method" and key.name in METHOD:
        owner, name = METHOD[key.name]
        return docstrings.fields(type(owner) if not isinstance(owner, Method) else Method)[name]
    found = docstrings.fields(key.owner)
    if key.name not in found:
        raise KeyError(f"nothing says what {key.path} means: neither example.toml, a docstring nor this file")
    return found[key.name]
