"""Checks that an edge is ready to start, without starting it."""

import datetime as dt
from pathlib import Path
from urllib.parse import urlsplit

import torch

from alphaedge.core.fields import KEYED, WHOLE
from alphaedge.core.model import Model
from alphaedge.edge.config import EdgeConfig
from alphaedge.edge.cores import assign_cores
from alphaedge.edge.learning.promise_check import check_promise
from alphaedge.edge.trust.certificates import KeyPair, check_certificate, load_certificate
from alphaedge.edge.trust.credentials import check_loopback
from alphaedge.edge.trust.known_revocations import KnownRevocations
from alphaedge.edge.trust.policy import Policy
from alphaedge.edge.trust.policy_file import DEFAULT_POLICY
from alphaedge.edge.trust.revocations import REVOKED_FILE
from alphaedge.edge.trust.wire_secrets import (
    WIRE_SECRETS_FILE,
    WireSecret,
    check_secret,
    read_first_secret,
    read_wire_secrets,
)
from alphaedge.errors import CertificateError, InvalidValue


def check_edge(config: EdgeConfig, folder: Path, now: dt.datetime, *, insecure: bool = False) -> list[str]:
    """Check a configuration and the files that it names; return a report, line by line.

    Raises an error for the first thing that is wrong. insecure: whether peers need no certificates, which is allowed on
    one machine only.
    """
    model = config.model.make()
    _check_model(config, model)
    report = [f"model {config.model.name}: {model.dense_size:,} parameters and {len(model.tables)} id tables"]
    report.append(f"method {config.method.name}: aggregates every {config.method.make().aggregate_every} batches")
    report += _describe_disclosure(config, model)
    report += check_promise(config, model, folder / config.data, now.timestamp())
    if config.secret is None:
        report.append("no secret: keys reveal their ids; use this for trials only")
    else:
        try:
            secret = read_first_secret(folder, config.secret)
        except OSError as error:  # the key may hold the secret itself by mistake: do not show it
            found = f"{len(config.secret)} characters"
            raise InvalidValue("secret", found, f"the name of a readable file ({error.strerror})") from error
        check_secret("secret", secret)
        report.append("secret: ok")
    report += _check_wire_secrets(config, folder)
    if config.policy is not None or (folder / DEFAULT_POLICY).exists():
        rules = Policy.parse(_read(folder, "policy", config.policy or DEFAULT_POLICY).decode())
        report.append(f"policy: {len(rules.rules)} rules")
    if config.serve.token is not None:
        if not _read(folder, "serve.token", config.serve.token).strip():
            raise InvalidValue("serve.token", config.serve.token, "a file with a token in it")
        report.append("token: callers must send it")
    for field, name in (("serve.certificate", config.serve.certificate), ("serve.key", config.serve.key)):
        if name is not None:
            _read(folder, field, name)
    cores = assign_cores(config.serve.cores)
    if cores is not None:
        report.append(f"cores: {cores}")
    report.append(_check_certificates(config, folder, now, insecure=insecure))
    return report


def _describe_disclosure(config: EdgeConfig, model: Model) -> list[str]:
    """Which ids peers get to know."""
    disclosure = config.method.make().disclosure
    if disclosure is None:
        return []
    disclosure.local_tables(model)  # refuses fields that the model does not have
    who = "events" if disclosure.user is None else f"different values of {disclosure.user}"
    said = []
    if disclosure.counts_users:
        said.append(f"disclosure: an id is named to peers once {disclosure.min_users} {who} stand behind it")
    if disclosure.local:
        said.append(f"disclosure: ids of {', '.join(disclosure.local)} are never named to peers")
    return said


def _check_wire_secrets(config: EdgeConfig, folder: Path) -> list[str]:
    name = config.peers.secrets
    if name is None and not (folder / WIRE_SECRETS_FILE).exists():
        return []
    try:
        found = read_wire_secrets(folder / (name or WIRE_SECRETS_FILE))
    except OSError as error:
        shown = name or WIRE_SECRETS_FILE
        raise InvalidValue("peers.secrets", shown, f"a readable file ({error.strerror})") from error
    newest = WireSecret(found[-1], read_first_secret(folder, config.secret))
    return [f"wire secrets: {len(found)}, the newest is {newest.name.hex()}"]


def _check_model(config: EdgeConfig, model: Model) -> None:
    """Check that the model has the fields that it takes and enough rows for its ids, and run one batch through it."""
    fields = {f.name: f for f in config.model.fields}
    for name in model.fields:
        if name not in fields:
            raise InvalidValue("model.fields", list(fields), f"also {name}, which the model takes")
    for table in model.tables:
        for position in table.fields:
            field = fields[model.fields[position]]
            if field.kind not in KEYED or field.size > table.rows:
                allowed = f"an id or a category with at most the {table.rows} rows of its table"
                raise InvalidValue(f"model.fields.{field.name}", f"{field.kind} of {field.size}", allowed)
    inputs = []
    for name in model.fields:
        field = fields[name]
        whole = field.kind in WHOLE
        inputs.append(torch.zeros(2, dtype=torch.long) if whole else torch.zeros(2, field.size, dtype=model.dtype))
    model.module.eval()
    with torch.no_grad():
        outputs = model.module(*inputs, *model.untold(2))
    if outputs.shape not in ((2,), (2, 1)):
        raise InvalidValue("model", f"outputs of shape {tuple(outputs.shape)}", "one number for each example")


def _check_certificates(config: EdgeConfig, folder: Path, now: dt.datetime, *, insecure: bool) -> str:
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
        return "insecure: peers on this machine are trusted without certificates"
    if peers.certificate is None or peers.key is None or peers.authority is None:
        return "no certificate: this edge learns alone"
    pair = KeyPair.load(_read(folder, "peers.certificate", peers.certificate), _read(folder, "peers.key", peers.key))
    authority = load_certificate(_read(folder, "peers.authority", peers.authority))
    identity = check_certificate(pair.certificate, authority, now)
    list_file = (folder / peers.authority).with_name(REVOKED_FILE)
    if KnownRevocations(lambda: authority, list_file, folder / config.data / REVOKED_FILE).is_revoked(identity.serial):
        raise CertificateError(f"the certificate {identity.serial:x} of {identity.edge} is revoked")
    for field, certified, configured in (
        ("edge", identity.edge, config.edge),
        ("region", identity.region, config.region),
    ):
        if certified != configured:
            raise InvalidValue(field, configured, f"{certified}, as the certificate says")
    host = (peers.address or f"{peers.host}:{peers.port}").rpartition(":")[0]
    if host not in identity.hosts:
        raise InvalidValue("peers.address", host, "one of the certificate's hosts: " + ", ".join(identity.hosts))
    return f"certificate: {identity.edge} in {identity.region}, until {identity.not_after:%Y-%m-%d}"


def _read(folder: Path, field: str, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise InvalidValue(field, name, f"a readable file ({error.strerror})") from error
