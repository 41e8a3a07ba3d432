"""Every key of the two configuration files: an edge's and a simulation's.

A key's meaning comes from the tables here, else from the comment in ``example.toml``, else from the code. A key that
none of them describes is an error.
"""

import inspect
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any, Final, NamedTuple, get_args

import msgspec

from alphaedge import MethodSettings, Settings
from alphaedge.core.methods import method
from alphaedge.edge.config import EdgeConfig
from tools.reference import docstrings
from tools.reference.markdown import sentence, table, toml_value, type_name

# Where the method "alphaedge" has the default of a key in [method]: a part of it, and the name there.
METHOD_FIELDS: Final[Mapping[str, tuple[str, str]]] = {
    "aggregate_every": ("", "aggregate_every"),
    "pull_ahead": ("", "pull_ahead"),
    "peers": ("selection", "peers"),
    "replace": ("selection", "replace"),
    "select_every": ("selection", "every"),
    "weight_rate": ("aggregation", "rate"),
    "weight_steps": ("aggregation", "steps"),
    "newcomer": ("aggregation", "newcomer"),
    "remember": ("aggregation", "remember"),
    "weight_batches": ("aggregation", "weight_batches"),
    "train_on_aggregation": ("", "train_on_aggregation"),
    "train_ahead": ("", "train_ahead"),
    "precision": ("", "precision"),
    "min_change": ("", "min_change"),
    "tallies": ("", "tallies"),
    "adopt_rows": ("", "adopt_rows"),
    "home": ("", "home"),
    "trial": ("", "trial"),
}
EDGE_KEYS: Final[Mapping[str, str]] = {
    "policy": "file with the rules that allow or deny links; otherwise `policy.txt` beside this file, if there is one",
    "model.last": "of the built-in table: the number field with the newest known value of the label, if there is one",
    "model.relative": "of the built-in table: whether the label is never negative and changes by factors since `last`",
    "model.builtin": "a built-in model: `deepfm` learns ids and their interactions, `mlp` is plain layers, `table` "
    "predicts a number from any fields without a scale to set. "
    "Give either this or `factory`",
    "model.factory": "`package.module:function` that returns your `nn.Module` or `alphaedge.Model`",
    "model.task": "`classify`: labels are 0 or 1; `regress`: labels are numbers",
    "model.id_rows": "optimizer of id rows: Adagrad, or one of two readings of Adam",
    "model.id_rate": "learning rate of Adagrad, for id rows",
    "model.local_steps": "gradient steps on each batch",
    "model.fields.name": "the name of the input in requests",
    "model.fields.kind": "`id`: text or a whole number, with a row of its own and a tally; `category`: the same "
    "without a tally; `code`: a whole number from 0 to size - 1 that all edges agree on; "
    "`set`: a number for each of size codes; `number`: size measurements",
    "model.tallies": "id fields whose tallies the model is told; by default all of a built-in `deepfm`, none of others",
    "model.tables.fields": "the fields that hold the ids",
    "model.tables.parameters": "the parameters with one row per id, named as in `named_parameters()`",
    "method.name": "`alphaedge`, one of its rivals, or the import path of a function that returns a method",
    "serve.host": "address of the port for callers; `0.0.0.0` is every address of the machine",
    "serve.port": "port for callers; 0 takes any free port and prints it",
    "serve.certificate": "file with a certificate, to serve over HTTPS",
    "serve.key": "file with the key of that certificate",
    "serve.cores": "`separate` gives the learner the last core and the server the others, for a machine with one edge",
    "peers.host": "address of the port for peers",
    "peers.port": "port for peers; 0 takes any free port and prints it",
    "peers.seeds": "`host:port` of some edges to contact first",
    "peers.certificate": "file with the edge's certificate, from `alphaedge certs`; an edge without one has no peers",
    "peers.key": "file with the key of that certificate",
    "peers.authority": "file with the certificate of the fleet's authority, `ca.pem`",
    "peers.deadline_seconds": "seconds for a whole pull, a retry included; more if large models travel over slow links",
    "peers.max_connections": "connections that peers may have open at once, 8 of them for each",
    "peers.max_requests_per_second": "requests of each peer; every megabyte of a request or an answer counts as one",
    "peers.nats.servers": "servers of an existing cluster, such as `tls://nats.example.com:4222`",
    "peers.nats.bucket": "the key-value bucket that holds the announcements",
    "peers.nats.down_after_seconds": "seconds without a heartbeat after which an edge counts as down",
    "feedback.unanswered": "what to do with a prediction that has no label within the window: drop it, or learn a 0",
}
METHOD_KEYS: Final[Mapping[str, str]] = {
    "method.peers": "K: the number of neighbours",
    "method.replace": "K': how many of the weakest neighbours a selection replaces",
    "method.pull_ahead": "batches before an aggregation at which models are pulled; on a live edge `weight_batches`",
    "method.select_every": "m: aggregations between two selections",
    "method.aggregate_every": "E: batches between two aggregations",
    "method.weight_rate": "learning rate of the weights",
    "method.weight_steps": "gradient steps on the weights at an aggregation",
    "method.newcomer": "raw weight of a newcomer, relative to the mean of the edge and the neighbours that stay",
    "method.remember": "whether a former neighbour that is chosen again gets back the weight that it had",
    "method.train_on_aggregation": "whether the batches that the weights were learned on are trained on after the mix",
    "method.train_ahead": "whether the mixed model trains on the batches that wait for the mix while they wait",
    "method.precision": "of the models that peers pull: `int8` is about a third of the bytes, and what "
    "rounding leaves out comes with the next publication; `bfloat16` is half of them, with three digits",
    "method.min_change": "a trained row is published anew if it differs from what was published of it by more than "
    "this fraction, in its parameters or in the events of its tally; 0 publishes every one",
    "method.publish_bytes": "bytes of id rows that a publication adds at most: the most useful first",
    "method.tallies": "whether an edge knows only its own tallies of ids, or those of its peers as well",
    "method.hear": "peers whose tallies alone are pulled, beside those of the neighbours",
    "method.aggregation": "import path of your own aggregation rule, `package.module:name`",
    "method.selection": "import path of your own selection rule, `package.module:name`",
    "method.home": "whether to keep a home model and blend its predictions in where it does better",
    "method.disclosure.min_users": "users behind an id before it is named to peers, in requests and in answers; 1 is "
    "every id at once",
    "method.disclosure.user": "field with the ids of those users; without, every event counts as a user",
    "method.disclosure.local": "fields whose ids are never named to peers",
    "method.privacy.epsilon": "the promise for each window: less tells less of a user",
    "method.privacy.delta": "the chance that the promise allows to be broken, in each window",
    "method.privacy.window_seconds": "length of a window, in seconds",
    "method.privacy.user": "field with the ids of users, who are protected with all that they do in a window; without, "
    "each event on its own",
    "method.privacy.participations": "private steps of a window in which a user counts",
    "method.privacy.clip": "the longest gradient of one user or event",
    "method.privacy.rate": "learning rate of the released model",
    "method.privacy.tables": "fields whose ids may be told, as far as enough users stand behind each",
    "method.privacy.lot_batches": "batches per private step; more give less noise for each event, and fewer steps",
    "method.privacy.tally_batches": "batches for which the counts of ids wait until noise goes over them",
    "method.privacy.total_epsilon": "what may be spent over all windows; afterwards nothing new is published",
    "method.trial": "whether a peer's model is scored on own batches before it counts",
}
SIMULATION_KEYS: Final[Mapping[str, str]] = {
    "data": "`synthetic`, the name of a public data set, or `table`",
    "local_steps": "gradient steps on each batch",
    "model": "a base model of the data set; the default is its first",
    "first": "use only this share of the events, the earliest of them; the default is all",
    "rows": "use at most this many events, starting after the first quarter; the default is all",
    "batch_size": "events in a batch; the default depends on the data set",
    "rate": "learning rate of Adam; the default depends on the data set and the model",
    "id_rows": "optimizer of id rows: Adagrad, or one of two readings of Adam; the default depends on the model",
    "clock": "whether batches follow the times of events, or all edges run in lock-step",
    "executor": "all edges in one call; or one edge after another, which is slow, for debugging, and gives the same",
    "device": "device of torch, such as `cuda`; never run on a GPU so far",
    "table.time": "column with the time: a date, a date and time, or a number; empty is a guess, here and below",
    "table.edge": "column with the place; each value becomes an edge",
    "table.label": "column with the label",
    "table.ids": "columns of ids to learn from",
    "table.categories": "columns of few values to learn from",
    "table.numbers": "columns of numbers to learn from; the kinds of columns that you do not name are guessed",
    "table.only": "whether columns that you do not name are left out",
    "conditions.joins": "for some edges, when they join, 0 to 1 of the run",
    "conditions.leaves": "for some edges, when they leave for good, 0 to 1 of the run",
    "store.edges": "number of regions",
    "store.events": "mean number of events in a region",
    "store.users": "customers of a region",
    "store.clusters": "hidden groups of regions with the same taste",
    "store.items": "items in the catalogue",
    "store.categories": "categories of items",
    "store.new_items": "share of the items that appear only during the run",
    "store.changes": "sudden changes of what sells, each in one cluster",
    "store.drift": "how far a cluster's taste turns into another's over the run, 0 to 1",
    "store.moves": "share of the regions that change to another cluster half-way through the run, 0 to 1",
    "store.appeal": "how much an item's own appeal matters",
    "store.seed": "seed of the store; each run adds its own number",
}
TITLES: Final[Mapping[str, str]] = {
    "model": "what the edge learns",
    "model.fields": "the inputs",
    "model.tables": "id tables of your own module",
    "method": "how edges learn from each other",
    "method.disclosure": "when an id is named to peers",
    "method.privacy": "what edges promise about their users",
    "serve": "the port for callers",
    "peers": "the port for peers",
    "peers.nats": "NATS instead of gossip",
    "feedback": "labels",
    "store": "the synthetic store",
    "table": "your own table",
    "conditions": "delays, outages and adversaries",
}


class Key(NamedTuple):
    """One key of a configuration file."""

    section: str
    name: str
    annotation: Any
    default: Any  # msgspec.NODEFAULT if the key is required
    owner: type[msgspec.Struct]

    @property
    def path(self) -> str:
        """The key with its section, such as ``model.name``."""
        return f"{self.section}.{self.name}".lstrip(".")


def keys(struct: type[msgspec.Struct], section: str = "") -> Iterator[Key]:
    """All keys of a file. A section within a section follows it."""
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


def example_comments() -> dict[str, str]:
    """The comment on each key in the file that ``alphaedge edge init`` writes."""
    text = resources.files("alphaedge.edge").joinpath("example.toml").read_text(encoding="utf-8")
    comments, section = dict[str, str](), ""
    for line in text.splitlines():
        if head := re.match(r"\[([a-z.]+)\]", line):
            section = head[1] + "."
        elif line.startswith("[["):
            section = "one of several."
        elif key := re.match(r"(?:# )?([a-z_]+) = .*?\s# (.+)", line):
            comments[section + key[1]] = key[2]
    return comments


def edge_section() -> str:
    """The keys of ``edge.toml``, section by section."""
    return _sections(EdgeConfig, "edge.toml", {**example_comments(), **METHOD_KEYS, **EDGE_KEYS})


def simulation_section() -> str:
    """The keys of a simulation's ``config.toml``, section by section."""
    return _sections(Settings, "config.toml", {**METHOD_KEYS, **SIMULATION_KEYS})


def _sections(struct: type[msgspec.Struct], file: str, meanings: Mapping[str, str]) -> str:
    found = list(keys(struct))
    made = []
    for section in dict.fromkeys(key.section for key in found):
        name = f"[[{section}]]" if section in ("model.fields", "model.tables") else f"[{section}]"
        head = f"`{name}`: {TITLES[section]}" if section else f"At the top of `{file}`"
        rows = [_row(key, meanings) for key in found if key.section == section]
        made.append(f"### {head}\n")
        if section == "method":
            made.append(
                docstrings.blocks(inspect.getdoc(MethodSettings) or "") + "\nThe defaults are those of `alphaedge`.\n"
            )
        made.append(table(("key", "type", "default", "meaning"), rows))
    return "\n".join(made)


def _row(key: Key, meanings: Mapping[str, str]) -> tuple[str, str, str, str]:
    default = key.default
    if key.section == "method" and key.name in METHOD_FIELDS:
        default = getattr(*_method_field(key.name))
        default = default if isinstance(default, bool | int | float | str) else default is not None
    shown = (
        "required"
        if default is msgspec.NODEFAULT
        else "none"
        if default in (None, (), {})
        else f"`{toml_value(default)}`"
    )
    meaning = meanings.get(key.path) or _described(key)
    return f"`{key.name}`", type_name(key.annotation), shown, sentence(meaning)


def _method_field(key: str) -> tuple[Any, str]:
    """The part of the method that a key changes, and the name of its field there."""
    part, name = METHOD_FIELDS[key]
    return (getattr(method("alphaedge"), part) if part else method("alphaedge")), name


def _described(key: Key) -> str:
    """The meaning of a key from the docstring or comment of its field."""
    owner: type = key.owner
    name = key.name
    if key.section == "method" and key.name in METHOD_FIELDS:
        part, name = _method_field(key.name)
        owner = type(part)
    described = docstrings.describe_fields(owner)
    if name not in described:
        raise KeyError(f"{key.path} is described neither in example.toml, nor in a docstring, nor in {__name__}")
    return described[name]
