"""Is this edge ready to start? Everything that can be told without starting it."""

import datetime as dt
from pathlib import Path
from urllib.parse import urlsplit

import torch

from alphaedge.core.model import Model
from alphaedge.edge.config import EdgeConfig
from alphaedge.edge.cores import assign_cores
from alphaedge.edge.trust.certificates import KeyPair, check_certificate, load_certificate
from alphaedge.edge.trust.credentials import check_loopback
from alphaedge.edge.trust.policy import Policy
from alphaedge.errors import InvalidValue

SMALLEST_SECRET = 16  # bytes


def checked(config: EdgeConfig, folder: Path, now: dt.datetime, *, insecure: bool = False) -> list[str]:
    """What was found good, line by line; raises at the first thing that is not.

    insecure: whether peers may do without certificates, which they may on one machine alone.
    """
    model = config.model.make()
    _check_model(config, model)
    said = [f"model {config.model.name}: {model.dense_size:,} parameters and {len(model.tables)} id tables"]
    said.append(f"method {config.method.name}: aggregates every {config.method.make().aggregate_every} batches")
    if config.secret is None:
        said.append("no secret: everybody can tell ids from their keys; for trying out alone")
    else:
        try:
            secret = (folder / config.secret).read_bytes().strip()
        except OSError as error:  # somebody may have written the secret itself there: it must not be seen in a log
            found = f"{len(config.secret)} characters"
            raise InvalidValue("secret", found, f"the name of a readable file ({error.strerror})") from error
        if not SMALLEST_SECRET <= len(secret) <= 64:
            raise InvalidValue("secret", f"{len(secret)} bytes", f"a file of {SMALLEST_SECRET} to 64 bytes")
        said.append("secret: good")
    if config.policy is not None:
        rules = Policy.parse(_read(folder, "policy", config.policy).decode())
        said.append(f"policy: {len(rules.rules)} rules")
    if config.serve.token is not None:
        if not _read(folder, "serve.token", config.serve.token).strip():
            raise InvalidValue("serve.token", config.serve.token, "a file with a token in it")
        said.append("token: callers must show it")
    for field, name in (("serve.certificate", config.serve.certificate), ("serve.key", config.serve.key)):
        if name is not None:
            _read(folder, field, name)
    cores = assign_cores(config.serve.cores)
    if cores is not None:
        said.append(f"cores: {cores}")
    said.append(_certificates(config, folder, now, insecure=insecure))
    return said


def _check_model(config: EdgeConfig, model: Model) -> None:
    """One batch through the model: its fields fit it, and its id tables have the rows that the fields speak of."""
    sizes = {f.name: f for f in config.model.fields}
    for name in model.fields:
        if name not in sizes:
            raise InvalidValue("model.fields", list(sizes), f"among them {name}, which the model takes")
    for table in model.tables:
        for position in table.fields:
            field = sizes[model.fields[position]]
            if field.kind != "id" or field.size > table.rows:
                allowed = f"an id with at most the {table.rows} rows of its table"
                raise InvalidValue(f"model.fields.{field.name}", f"{field.kind} of {field.size}", allowed)
    inputs = []
    for name in model.fields:
        field = sizes[name]
        whole = field.kind in ("id", "category")
        inputs.append(torch.zeros(2, dtype=torch.long) if whole else torch.zeros(2, field.size, dtype=model.dtype))
    model.module.eval()
    with torch.no_grad():
        outputs = model.module(*inputs)
    if outputs.shape not in ((2,), (2, 1)):
        raise InvalidValue("model", f"outputs of shape {tuple(outputs.shape)}", "one number for each example")


def _certificates(config: EdgeConfig, folder: Path, now: dt.datetime, *, insecure: bool) -> str:
    peers = config.peers
    if insecure:
        if peers.certificate is not None:
            raise InvalidValue("--insecure", peers.certificate, "no certificate in [peers]: one or the other")
        for field, address in (
            ("peers.host", peers.host),
            ("peers.address", peers.address or peers.host),
            *(("peers.seeds", seed) for seed in peers.seeds),
            *(("peers.nats.servers", urlsplit(url).netloc) for url in (peers.nats.servers if peers.nats else ())),
        ):
            check_loopback(field, address)
        return "insecure: peers on this machine are believed whatever they say"
    if peers.certificate is None or peers.key is None or peers.authority is None:
        return "no certificate: this edge learns alone"
    pair = KeyPair.load(_read(folder, "peers.certificate", peers.certificate), _read(folder, "peers.key", peers.key))
    known = check_certificate(
        pair.certificate, load_certificate(_read(folder, "peers.authority", peers.authority)), now
    )
    for field, found, said in (("edge", known.edge, config.edge), ("region", known.region, config.region)):
        if found != said:
            raise InvalidValue(field, said, f"{found}, as the certificate says")
    host = (peers.address or f"{peers.host}:{peers.port}").rpartition(":")[0]
    if host not in known.hosts:
        raise InvalidValue("peers.address", host, "one of the certificate's hosts: " + ", ".join(known.hosts))
    return f"certificate: {known.edge} in {known.region}, until {known.not_after:%Y-%m-%d}"


def _read(folder: Path, field: str, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise InvalidValue(field, name, f"a readable file ({error.strerror})") from error
