"""The configuration of a live edge: its name, its model, its ports and the peers that it trusts."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, Literal, get_args

import msgspec
from msgspec import Meta
from torch import nn

from alphaedge import toml
from alphaedge.core.fields import KEYED, Field, Kind
from alphaedge.core.methods import Method
from alphaedge.core.model import IdTable, Model
from alphaedge.core.online import Online
from alphaedge.edge.cores import CoreSharing
from alphaedge.errors import InvalidValue, ModelError
from alphaedge.import_path import make_object
from alphaedge.models.deepfm import deepfm
from alphaedge.models.mlp import mlp
from alphaedge.models.table_model import table_model
from alphaedge.names import MAX_PLACE, check_name, is_place
from alphaedge.settings import MethodSettings, RowOptimizer, check_method, online

Task = Literal["classify", "regress"]
Count = Annotated[int, Meta(ge=1)]
Positive = Annotated[float, Meta(gt=0)]
Port = Annotated[int, Meta(ge=0, le=65535)]
Address = Annotated[str, Meta(pattern=r"^.+:[0-9]+\Z", description="host:port")]
NatsUrl = Annotated[
    str, Meta(pattern=r"^(nats|tls)://[^/@\s]+\Z", description="tls://host:port (or nats://, with --insecure)")
]
Bucket = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]+\Z", description="letters, digits, dashes and underscores")]
Builtin = Literal["deepfm", "mlp", "table"]
BUILTINS: Final = get_args(Builtin)
LOSSES: Final = {"classify": "bce", "regress": "mse"}


class FieldConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One input. size: for an id or a category the most values that have rows (values beyond that in one batch are
    learned from as unknown ones), for a code or set how many values there are, for numbers how many there are.
    missing: whether numbers may be missing (null in JSON, NaN in bytes)."""

    name: str
    kind: Kind
    size: Count = 1
    missing: bool = False


class TableConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An id table of your own module: the fields that hold its ids, the parameters that have a row for each."""

    fields: tuple[str, ...]
    parameters: tuple[str, ...]


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model: a built-in over the fields, or what ``factory`` ("package.module:name") returns.

    A factory returns an ``alphaedge.Model``, or an ``nn.Module`` that takes the fields in their order; then ``tables``
    names its id tables. tallies: id or category fields whose tallies the model is told, after its fields; None is all
    ids for the built-in deepfm, none for others. label_scale: about the size of the labels, to regress. batch_size:
    labels per online step. last, relative: of the built-in table, the number field with the newest known value of the
    label, and whether the label is never negative and changes by factors since then.
    classes: what your data call the labels 0 and 1, to classify; callers are told.
    optimizer: import path of an optimizer of your own, in the place of Adam; ``rate`` is then not used.
    """

    name: str = "model"
    builtin: Builtin | None = None
    factory: str | None = None
    task: Task = "classify"
    classes: tuple[str, str] | None = None
    fields: Annotated[tuple[FieldConfig, ...], Meta(min_length=1, description="at least one field")]
    tables: tuple[TableConfig, ...] = ()
    tallies: tuple[str, ...] | None = None
    hidden: tuple[int, ...] = (32,)
    label_scale: Positive = 1.0
    last: str | None = None
    relative: bool = False
    batch_size: Count = 50
    rate: Positive = 0.003
    optimizer: str | None = None
    id_rows: RowOptimizer = "adagrad"
    id_rate: Positive = 0.1
    local_steps: Count = 1

    def __post_init__(self) -> None:
        if self.builtin is None and self.factory is None:
            allowed = f'one of {", ".join(BUILTINS)}; add it, or factory = "package.module:name"'
            raise InvalidValue("model.builtin", None, allowed)
        if self.builtin is not None and self.factory is not None:
            raise InvalidValue("model.factory", self.factory, "no factory beside a builtin; remove one of the two")
        names = [f.name for f in self.fields]
        if len(set(names)) < len(names):
            raise InvalidValue("model.fields", names, "each name once")
        keyed = [f.name for f in self.fields if f.kind in KEYED]
        if self.builtin == "mlp" and keyed:
            raise InvalidValue("model.builtin", "mlp", f"deepfm: mlp has no rows for the values of {', '.join(keyed)}")
        if self.classes is not None and self.task == "regress":
            raise InvalidValue("model.classes", list(self.classes), 'none, with task = "regress"')
        if self.builtin == "table" and self.task == "classify":
            raise InvalidValue("model.builtin", "table", "deepfm, to classify")
        if self.last is not None and (self.builtin != "table" or self.last not in self._numbers):
            allowed = f'one of the numbers {", ".join(self._numbers)}, with builtin = "table"'
            raise InvalidValue("model.last", self.last, allowed)
        _ = self.online  # refuse an invalid optimizer now, not when it is first used

    def make(self) -> Model:
        """Make the model, with its initial parameters."""
        fields = [Field(f.name, f.kind, f.size, f.missing) for f in self.fields]
        loss = LOSSES[self.task]
        if self.builtin == "deepfm":
            return deepfm(
                fields,
                hidden=self.hidden,
                spread=0.003,
                label_scale=self.label_scale,
                normalise=True,
                tallies=self.tallies,
                loss=loss,
            )
        if self.builtin == "table":
            return table_model(fields, hidden=self.hidden, last=self.last, relative=self.relative)
        if self.builtin == "mlp":
            return mlp(fields, hidden=self.hidden, label_scale=self.label_scale, normalise=True, loss=loss)
        made = self._call_factory()
        if isinstance(made, Model):
            return made
        tables = [IdTable(t.fields, t.parameters) for t in self.tables]
        return Model(made, fields=[f.name for f in self.fields], tables=tables, tallies=self.tallies or (), loss=loss)

    def _call_factory(self) -> Model | nn.Module:
        made = make_object("model.factory", self.factory or "")
        if not isinstance(made, Model | nn.Module):
            raise ModelError(
                f"model.factory: {self.factory} returns {type(made).__name__}, not an nn.Module or alphaedge.Model"
            )
        return made

    @property
    def _numbers(self) -> list[str]:
        return [f.name for f in self.fields if f.kind == "number"]

    @property
    def online(self) -> Online:
        """The online step: optimizers and rates."""
        return online(self.rate, self.id_rows, self.id_rate, self.local_steps, self.optimizer)


class MethodConfig(MethodSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The method by its name, or the import path of a function that makes one, and what differs from its defaults."""

    name: str = "alphaedge"

    def __post_init__(self) -> None:
        check_method("method.name", self.name)
        made = self.make()
        for name in ("aggregation", "selection"):
            if (path := getattr(self, name)) is not None and not made.aggregation.uses_peers:
                raise InvalidValue(f"method.{name}", path, f"no rule of your own: {self.name} has no peers")

    def make(self) -> Method:
        """Make the method. By default it pulls ahead, so that no peer can make a round wait."""
        made = self.apply(self.name)
        if self.pull_ahead is None and made.aggregation.uses_peers and not made.pull_ahead:
            return replace(made, pull_ahead=min(made.weight_batches, made.aggregate_every - 1))
        return made


def _check_together(section: str, **files: str | None) -> None:
    """Refuse some of these files without the others."""
    missing = [name for name, file in files.items() if file is None]
    if missing and len(missing) < len(files):
        allowed = f"a file; add it: {', '.join(files)} go together"
        raise InvalidValue(f"{section}.{missing[0]}", None, allowed)


class ServeConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The port for callers. token: a file with the token that callers must send, if any.

    max_body_bytes: the largest request body, and the most memory for its decoded values. max_json_bytes: the most JSON
    in a body, and the largest compressed body after decompression; both take the edge much longer to read than tensors
    as bytes. max_examples: the most examples, or labels, of one request. max_requests_per_second: of one caller, which
    is everybody with the token, or an address; 0 for no limit. max_connections: open at once.
    max_connections_per_address: of these, from one address. certificate, key: files, to serve over HTTPS. cores:
    `separate` gives the learner a core of its own. learner_priority: `normal` on a machine whose cores are never idle,
    where an `idle` learner would starve.
    """

    host: str = "127.0.0.1"
    port: Port = 8080
    token: str | None = None
    max_body_bytes: Count = 10_000_000
    max_json_bytes: Count = 500_000
    max_examples: Count = 20_000
    max_requests_per_second: Annotated[float, Meta(ge=0)] = 10_000.0
    max_connections: Count = 1_000
    max_connections_per_address: Count = 500
    certificate: str | None = None
    key: str | None = None
    cores: CoreSharing = "shared"
    learner_priority: Literal["idle", "normal"] = "idle"

    def __post_init__(self) -> None:
        _check_together("serve", certificate=self.certificate, key=self.key)


class NatsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """NATS as the directory. servers: of an existing cluster. bucket: the key-value bucket of the announcements.

    down_after_seconds: without a heartbeat, until an edge counts as down. The edge presents the certificate that it has
    for its peers; the cluster maps it to a user.
    """

    servers: Annotated[
        tuple[NatsUrl, ...], Meta(min_length=1, description="at least one, such as tls://nats.example.com:4222")
    ]
    bucket: Bucket = "alphaedge"
    down_after_seconds: Annotated[float, Meta(ge=1)] = 10.0


class PeersConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The port for peers. address: how they reach it, if not by host and port. seeds: some edges to contact first.

    certificate, key, authority: files of ``alphaedge certs``; an edge without them has no peers.
    secrets: a file with the secrets under which keys travel, from ``alphaedge certs secret``; otherwise
    ``wire.secrets``, if there is one, or else the fleet's secret.
    deadline_seconds: for a whole pull. max_connections: that peers may have open at once. max_requests_per_second: of
    each peer; every megabyte counts as one.
    """

    host: str = "127.0.0.1"
    port: Port = 8443
    address: str | None = None
    seeds: tuple[Address, ...] = ()
    certificate: str | None = None
    key: str | None = None
    authority: str | None = None
    secrets: str | None = None
    deadline_seconds: Positive = 15.0
    max_connections: Count = 256
    max_requests_per_second: Positive = 100.0
    nats: NatsConfig | None = None

    def __post_init__(self) -> None:
        _check_together("peers", certificate=self.certificate, key=self.key, authority=self.authority)


class FeedbackConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Labels. window_seconds: how long after its prediction a label may arrive. unanswered: what a prediction without a
    label becomes then: ``drop`` forgets it, ``negative`` learns the label 0.
    """

    window_seconds: Positive = 86_400.0
    unanswered: Literal["drop", "negative"] = "drop"


class EdgeConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole configuration. Paths are relative to the file's folder.

    place: what your data call the place of this edge, for people to read; the fleet sees it.
    secret: a file with the fleet's secret, under which ids become keys; the same for all edges of a fleet, for good.
    policy: a file with rules; otherwise ``policy.txt``, if there is one. seed: of the initial model; the same for all
    edges of a fleet.
    """

    edge: str
    region: str
    place: str = ""
    model: ModelConfig
    data: str = "data"
    secret: str | None = None
    policy: str | None = None
    seed: Annotated[int, Meta(ge=0)] = 0
    method: MethodConfig = MethodConfig()
    serve: ServeConfig = ServeConfig()
    peers: PeersConfig = PeersConfig()
    feedback: FeedbackConfig = FeedbackConfig()

    def __post_init__(self) -> None:
        check_name("edge", self.edge)
        check_name("region", self.region)
        if not is_place(self.place):
            raise InvalidValue("place", self.place, f"at most {MAX_PLACE} characters that can be printed")


def load(path: Path) -> EdgeConfig:
    """Read an edge's configuration file; unknown keys are errors."""
    return toml.load(path, EdgeConfig)
