"""What real announcements, heartbeats and digests cost: bytes, memory and processor time, by the project's own code."""

import datetime as dt
import random
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import msgspec

from alphaedge.edge.directory.exchange import Digest, Exchange
from alphaedge.edge.directory.membership import Entry, Membership
from alphaedge.edge.trust.announcements import Announcement, SignedAnnouncement
from alphaedge.edge.trust.authority import CertificateFolder
from alphaedge.edge.trust.credentials import CertificateCredentials
from alphaedge.monitoring.vitals import Link, Vitals

PEERS: Final = 5  # K
FORMER: Final = 25  # links to former neighbours that an edge reports after a while
REPEAT: Final = 200
EDGE: Final = "edge-000001"


@final
@dataclass(frozen=True)
class Costs:
    """Measured costs.

    announcement, first_announcement: bytes of a signed announcement with links to former neighbours, and without.
    certificate: bytes of that which are the certificate. topology: bytes of an announcement without vitals and
    certificate. heartbeat: bytes. digest_entry, plain_entry: bytes per edge in a digest, and without its heartbeat.
    memory: bytes per edge in a directory.
    verify_heartbeat, verify_announcement, verify_certificate: seconds for a heartbeat, for an announcement, and for an
    announcement with a certificate that was not seen before. write_digest, answer_digest, choose_contacts: seconds per
    edge in the directory to write a digest, to read and answer one without news, and to choose the contacts of a round.
    """

    announcement: int
    first_announcement: int
    certificate: int
    topology: int
    heartbeat: int
    digest_entry: float
    plain_entry: float
    memory: float
    verify_heartbeat: float
    verify_announcement: float
    verify_certificate: float
    write_digest: float
    answer_digest: float
    choose_contacts: float


def make_announcement(version: int, former: int, *, vitals: bool = True) -> Announcement:
    """An announcement such as an edge with K neighbours makes. former: how many former neighbours it reports."""
    neighbours = tuple(f"edge-{number:06}" for number in range(2, 2 + PEERS))
    mixed = {
        name: Link(share=0.1234, pulled=1.7634e9 + 0.1, bytes=123_456_789, behind=1, state="mixed")
        for name in neighbours
    }
    left = {f"edge-{number:06}": Link(pulled=1.7634e9, bytes=1_234_567) for number in range(1000, 1000 + former)}
    report = Vitals(
        score=0.7123,
        recent=0.7234,
        batches=12_345,
        aggregations=617,
        requests=617_250,
        p50=2.1234,
        p99=9.8765,
        pending=123,
        own_share=0.3821,
        home_share=0.2123,
        neighbours=neighbours,
        links={**mixed, **left},
    )
    return Announcement(
        edge=EDGE,
        region="EU",
        address="edge-000001.shops.example:8443",
        schema="0123456789abcdef",
        version=version,
        publication=617,
        shares=dict.fromkeys(neighbours, 0.12345678),
        vitals=report if vitals else Vitals(),
    )


def measure(folder: Path, *, edges: int, repeat: int = REPEAT) -> Costs:
    """Measure with a directory of so many edges. They share one certificate, so that it need not be issued often."""
    now = dt.datetime.now(dt.UTC)
    authority = CertificateFolder(folder)
    authority.init("shops", now=now, days=100)
    authority.issue(EDGE, "EU", ["127.0.0.1"], now=now, days=50)

    def load() -> CertificateCredentials:
        files = (folder / f"{EDGE}.pem", folder / f"{EDGE}.key", folder / "ca.pem")
        return CertificateCredentials(*files, lambda: dt.datetime.now(dt.UTC))

    own = load()
    usual, first = own.sign(make_announcement(1, FORMER)), own.sign(make_announcement(1, 0))
    heartbeat = own.sign_heartbeat(1_000, int(time.time() * 1000))
    membership, memory = _fill(own, usual, edges)
    exchange, strangers = Exchange(membership), [load() for _ in range(min(repeat, 20))]
    digest = msgspec.msgpack.encode(exchange.digest())
    plain = Digest({edge: (*entry.announcement.order, None) for edge, entry in membership.entries.items()})
    empty = len(msgspec.msgpack.encode(Digest({})))
    own.verify(usual)
    few = max(3, repeat // 20)
    return Costs(
        announcement=_size(usual),
        first_announcement=_size(first),
        certificate=len(usual.certificate),
        topology=_size(own.sign(make_announcement(1, 0, vitals=False))) - len(usual.certificate),
        heartbeat=len(msgspec.msgpack.encode(heartbeat)),
        digest_entry=(len(digest) - empty) / len(membership.entries),
        plain_entry=(len(msgspec.msgpack.encode(plain)) - empty) / len(membership.entries),
        memory=memory,
        verify_heartbeat=_seconds(lambda _: own.verify_heartbeat(usual, heartbeat), repeat),
        verify_announcement=_seconds(lambda _: own.verify(usual), repeat),
        verify_certificate=_seconds(lambda number: strangers[number].verify(usual), len(strangers)),
        write_digest=_seconds(lambda _: msgspec.msgpack.encode(exchange.digest()), few) / edges,
        answer_digest=_seconds(lambda _: _answer(exchange, digest), few) / edges,
        choose_contacts=_seconds(lambda _: exchange.choose_contacts(random.Random(0), 0.0), few) / edges,
    )


def _fill(own: CertificateCredentials, signed: SignedAnnouncement, edges: int) -> tuple[Membership, float]:
    """A directory of edges that are alive, and its bytes of memory per edge."""
    membership = Membership(EDGE, own, time.time)
    membership.announce(signed, 0.0)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(2, edges + 1):
        name = f"edge-{number:06}"
        copied = msgspec.msgpack.decode(msgspec.msgpack.encode(signed), type=SignedAnnouncement)  # as if received
        announcement = msgspec.msgpack.decode(copied.payload, type=Announcement)
        announcement = msgspec.structs.replace(announcement, edge=name, address=f"{name}.shops.example:8443")
        membership.entries[name] = Entry(copied, announcement, 0.0, own.sign_heartbeat(1_000, int(time.time() * 1000)))
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return membership, grown / (edges - 1)


def _answer(exchange: Exchange, digest: bytes) -> bytes:
    """What the receiver of a digest without news does."""
    decoded = msgspec.msgpack.decode(digest, type=Digest)
    for _ in exchange.read_digest("another", decoded, 0.0):
        pass
    return msgspec.msgpack.encode(exchange.delta(decoded))


def _size(signed: SignedAnnouncement) -> int:
    return len(msgspec.msgpack.encode(signed))


def _seconds(work: Callable[[int], object], repeat: int) -> float:
    """The processor time of some work: the fastest third of several tries, because other work disturbs."""
    times = []
    for number in range(repeat):
        began = time.process_time()
        work(number)
        times.append(time.process_time() - began)
    fastest = sorted(times)[: max(1, repeat // 3)]
    return sum(fastest) / len(fastest)
