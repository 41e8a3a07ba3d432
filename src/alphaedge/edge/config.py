"""The configuration of a live edge: who it is, what it learns, where it listens, whom it trusts."""

import importlib
import re
from pathlib import Path
from typing import Final, Literal

import msgspec
from torch import nn

from alphaedge import toml
from alphaedge.core.fields import Field
from alphaedge.core.methods import METHODS, Method
from alphaedge.core.model import IdTable, Model
from alphaedge.core.online import Online
from alphaedge.edge.cores import CoreSharing
from alphaedge.errors import InvalidValue, ModelError, check_choice, check_number
from alphaedge.models.deepfm import deepfm
from alphaedge.models.mlp import mlp
from alphaedge.names import check_name
from alphaedge.settings import MethodSettings, RowRule, online

Task = Literal["classify", "regress"]
LOSSES: Final = {"classify": "bce", "regress": "mse"}


class FieldConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One input. size: of an id the rows that its table may have at most, of a category or set the number of codes, of
    numbers how many they are."""

    name: str
    kind: Literal["id", "category", "set", "number"]
    size: int = 1

    def __post_init__(self) -> None:
        check_number(f"fields.{self.name}.size", self.size, low=1, whole=True)


class TableConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An id table of an own module: the fields that hold its ids, the parameters that have a row for each."""

    fields: tuple[str, ...]
    parameters: tuple[str, ...]


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model: a built-in over the fields, or what ``factory`` ("package.module:function") makes.

    A factory gives an ``alphaedge.Model``, or an ``nn.Module`` that is called with the fields in their order; then
    ``tables`` names its id tables. unit: about the size of the labels, to regress. batch_size: outcomes a step.
    """

    name: str = "model"
    builtin: Literal["deepfm", "mlp"] | None = None
    factory: str | None = None
    task: Task = "classify"
    fields: tuple[FieldConfig, ...] = ()
    tables: tuple[TableConfig, ...] = ()
    hidden: tuple[int, ...] = (32,)
    unit: float = 1.0
    batch_size: int = 50
    rate: float = 0.003
    id_rows: RowRule = "adagrad"
    id_rate: float = 0.1
    local_steps: int = 1

    def __post_init__(self) -> None:
        if (self.builtin is None) == (self.factory is None):
            raise InvalidValue("model", {"builtin": self.builtin, "factory": self.factory}, "one of the two")
        if not self.fields:
            raise InvalidValue("model.fields", [], "at least one field")
        names = [f.name for f in self.fields]
        if len(set(names)) < len(names):
            raise InvalidValue("model.fields", names, "each name once")
        for name in ("batch_size", "local_steps"):
            check_number(f"model.{name}", getattr(self, name), low=1, whole=True)
        for name in ("rate", "id_rate", "unit"):
            check_number(f"model.{name}", getattr(self, name), above=0)

    def make(self) -> Model:
        """The model, freshly made."""
        fields = [Field(f.name, f.kind, f.size) for f in self.fields]
        loss = LOSSES[self.task]
        if self.builtin == "deepfm":
            return deepfm(fields, hidden=self.hidden, spread=0.003, unit=self.unit, normalise=True, loss=loss)
        if self.builtin == "mlp":
            return mlp(fields, hidden=self.hidden, unit=self.unit, normalise=True, loss=loss)
        made = self._called()
        if isinstance(made, Model):
            return made
        tables = [IdTable(t.fields, t.parameters) for t in self.tables]
        return Model(made, fields=[f.name for f in self.fields], tables=tables, loss=loss)

    def _called(self) -> Model | nn.Module:
        path = self.factory or ""
        module, colon, name = path.partition(":")
        if not (module and colon and name):
            raise InvalidValue("model.factory", path, "package.module:function")
        try:
            made = getattr(importlib.import_module(module), name)()
        except (ImportError, AttributeError) as error:
            raise InvalidValue("model.factory", path, f"something that can be imported ({error})") from error
        if not isinstance(made, Model | nn.Module):
            raise ModelError(f"model.factory: {path} makes {type(made).__name__}, not an nn.Module or alphaedge.Model")
        return made

    @property
    def online(self) -> Online:
        """How it learns from a batch."""
        return online(self.rate, self.id_rows, self.id_rate, self.local_steps)


class MethodConfig(MethodSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The method by its name, and what differs from its defaults."""

    name: str = "alphaedge"

    def __post_init__(self) -> None:
        check_choice("method.name", self.name, METHODS)
        self.make()

    def make(self) -> Method:
        """The method."""
        return self.apply(self.name)


class ServeConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The public API. token: a file whose content callers must show, if any. body: largest request, in bytes.

    certificate, key: files, to serve over HTTPS. cores: apart, if the learner is to have one to itself.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    token: str | None = None
    body: int = 10_000_000
    certificate: str | None = None
    key: str | None = None
    cores: CoreSharing = "shared"

    def __post_init__(self) -> None:
        check_number("serve.port", self.port, low=0, high=65535, whole=True)
        check_number("serve.body", self.body, low=1, whole=True)
        if (self.certificate is None) != (self.key is None):
            raise InvalidValue("serve.key", self.key, "a file with a certificate, and none without")


class NatsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """NATS as the directory. servers: of an existing cluster. bucket: where records are. down_after: seconds.

    The edge shows the certificate that it has for its peers; the cluster maps it to a user.
    """

    servers: tuple[str, ...]
    bucket: str = "alphaedge"
    down_after: float = 10.0

    def __post_init__(self) -> None:
        check_number("peers.nats.down_after", self.down_after, low=1)
        if not self.servers:
            raise InvalidValue("peers.nats.servers", [], "at least one, such as tls://nats.example.com:4222")
        for server in self.servers:
            if not re.fullmatch(r"(nats|tls)://[^/@\s]+", server):
                raise InvalidValue("peers.nats.servers", server, "tls://host:port (or nats://, with --insecure)")
        if not re.fullmatch(r"[A-Za-z0-9_-]+", self.bucket):
            raise InvalidValue("peers.nats.bucket", self.bucket, "letters, digits, dashes and underscores")


class PeersConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The port for other edges. address: how they reach it, if not by host and port. seeds: some to begin with.

    certificate, key, authority: files of ``alphaedge certs``; without them the edge has no peers.
    """

    host: str = "127.0.0.1"
    port: int = 8443
    address: str | None = None
    seeds: tuple[str, ...] = ()
    certificate: str | None = None
    key: str | None = None
    authority: str | None = None
    half: bool = False
    nats: NatsConfig | None = None

    def __post_init__(self) -> None:
        check_number("peers.port", self.port, low=0, high=65535, whole=True)
        files = {"certificate": self.certificate, "key": self.key, "authority": self.authority}
        missing = [name for name, file in files.items() if file is None]
        if 0 < len(missing) < len(files):
            raise InvalidValue(f"peers.{missing[0]}", None, "a file: certificate, key and authority go together")
        for seed in self.seeds:
            host, colon, port = seed.rpartition(":")
            if not (host and colon and port.isdigit()):
                raise InvalidValue("peers.seeds", seed, "host:port")


class FeedbackConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """window: seconds that an outcome may take. silence: what none within it means."""

    window: float = 86_400.0
    silence: Literal["drop", "negative"] = "drop"

    def __post_init__(self) -> None:
        check_number("feedback.window", self.window, above=0)


class EdgeConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything. Paths are relative to the file's folder.

    secret: a file with the fleet's secret, under which ids become keys; the same for all edges of a fleet.
    policy: a file with rules, if any.
    """

    edge: str
    region: str
    model: ModelConfig
    data: str = "data"
    secret: str | None = None
    policy: str | None = None
    seed: int = 0
    method: MethodConfig = MethodConfig()
    serve: ServeConfig = ServeConfig()
    peers: PeersConfig = PeersConfig()
    feedback: FeedbackConfig = FeedbackConfig()

    def __post_init__(self) -> None:
        for field, name in (("edge", self.edge), ("region", self.region)):
            check_name(field, name)
        check_number("seed", self.seed, low=0, whole=True)


def load(path: Path) -> EdgeConfig:
    """Read an edge's configuration file; unknown keys are errors."""
    return toml.load(path, EdgeConfig)
