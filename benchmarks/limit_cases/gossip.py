"""What other members can cost an edge with gossip: announcements, heartbeats and digests in great numbers."""

import contextlib
import gzip
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from alphaedge.edge.directory.exchange import MAX_ANNOUNCEMENTS_BYTES, TOLERANCE, Delta, Digest, max_announcements
from alphaedge.edge.directory.gossip import MAX_DELTA_BYTES
from alphaedge.edge.directory.membership import MAX_EDGES
from alphaedge.edge.peers.key_lists import max_keys
from alphaedge.edge.peers.wire import max_request_bytes
from alphaedge.edge.trust.announcements import SignedAnnouncement
from alphaedge.edge.trust.credentials import CertificateCredentials
from alphaedge.edge.trust.heartbeats import Heartbeat
from alphaedge.edge.trust.revocations import MAX_LIST_BYTES, RevocationList, RevokedCertificate, SignedRevocations
from benchmarks.limit_cases.measured import ACCEPTED_CPU_MS, REFUSED_CPU_MS, Accepted, Row, Work
from benchmarks.limit_cases.peer_port import CAPACITY, HEAD, Member, PeerPort, announcement, credentials, post

ANNOUNCEMENTS_CPU_MS_PER_MB: Final = 100.0
DIGEST_CPU_MS_PER_MB: Final = 100.0
MEMBER: Final = "member"
OTHERS: Final = tuple(f"other{number}" for number in range(max_announcements(1)))  # whose announcements are passed on
FORGED: Final = bytes(70)  # a signature
EMPTY: Final = Digest({})


def _encode(announcements: Sequence[SignedAnnouncement], digest: Digest = EMPTY) -> bytes:
    return msgspec.msgpack.encode(Delta(list(announcements), digest))


def _large_shares() -> dict[str, float]:
    """Shares that make an announcement as large as one of many in a message can be."""
    return {f"{number:050}": 0.0 for number in range(MAX_ANNOUNCEMENTS_BYTES // len(OTHERS) // 70)}


def _digest(edges: int) -> Digest:
    """A digest of as many edges, with heartbeats of edges that nobody knows."""
    heartbeat = Heartbeat(1, 1, 1, FORGED)
    return Digest({f"unknown{number:050}": (1, 1, heartbeat) for number in range(edges)})


def refusals(member: Member, sample: SignedAnnouncement) -> dict[str, Work]:
    """What must be refused."""
    many = MAX_DELTA_BYTES // (len(sample.payload) + len(sample.signature) + len(sample.certificate) + 10)
    too_many = _encode([sample] * min(many, MAX_EDGES))
    assert max_announcements(len(OTHERS) + 1) + TOLERANCE < many
    long = msgspec.structs.replace(sample, payload=msgspec.msgpack.encode([0] * (MAX_DELTA_BYTES - 10_000)))
    bomb, short = gzip.compress(bytes(10**8)), SignedAnnouncement(b"", b"", b"")
    too_large = b"content-length: %d\r\n\r\n" % (MAX_DELTA_BYTES + 1)
    endless = b"\x93\xdd" + (2**32 - 1).to_bytes(4, "big") + bytes(1000)  # an array of four billion
    return {
        "a message that is too large": member.refused(413, HEAD % b"delta" + too_large),
        "a gzip bomb": member.refused(415, post(b"delta", bomb, b"content-encoding: gzip")),
        f"{len(too_many) / 1e6:.1f} MB with too many announcements": member.refused(413, post(b"delta", too_many)),
        "38000 announcements": member.refused(400, post(b"delta", _encode([short] * 38_000))),
        "a list of four billion": member.refused(400, post(b"delta", endless)),
        f"a digest of {MAX_EDGES + 500} edges": member.refused(
            400, post(b"gossip", msgspec.msgpack.encode(_digest(MAX_EDGES + 500)))
        ),
        f"{MAX_DELTA_BYTES / 1e6:.1f} MB of garbage": member.refused(400, post(b"delta", b"\1" * MAX_DELTA_BYTES)),
        f"an announcement of {len(long.payload) / 1e6:.1f} MB": member.refused(413, post(b"delta", _encode([long]))),
    }


def _forged_list() -> bytes:
    """A message with the largest revocation list, which nobody has signed."""
    one = RevokedCertificate("f" * 40)
    count = MAX_LIST_BYTES // (len(msgspec.json.encode(one)) + 1) - 1
    payload = msgspec.json.encode(RevocationList(1, (one,) * count))
    return msgspec.msgpack.encode(Delta([], EMPTY, SignedRevocations(payload, FORGED)))


def _forged(own: Sequence[CertificateCredentials], versions: Iterator[int]) -> Iterator[bytes]:
    """Messages with as many announcements as allowed, all with false signatures."""
    while True:
        version = next(versions)
        signed = [one.sign(announcement(name, version)) for name, one in zip(OTHERS, own, strict=True)]
        yield _encode([msgspec.structs.replace(one, signature=FORGED) for one in signed])


def _measure_lies(port: PeerPort, name: str, liars: Sequence[Member], lies: Sequence[bytes]) -> Row:
    """What liars cost that are heard for the first time."""
    told = zip(liars, lies, strict=True)

    def tell() -> None:
        liar, lie = next(told)
        liar.say(lie)

    return Row(f"refused: {name}", "ms of CPU", port.process.cpu_ms(tell, len(liars) - 1), REFUSED_CPU_MS)


def measure_port(port: PeerPort, liars: Sequence[Member], member: Member) -> Iterator[Row]:
    """What one member costs. liars: others, of which each is heard once."""
    process, versions = port.process, itertools.count(1)
    own = [credentials(port.folder, name) for name in OTHERS]
    shares = _large_shares()

    def news(**fields: dict[str, float]) -> list[SignedAnnouncement]:
        version = next(versions)
        return [one.sign(announcement(name, version, **fields)) for name, one in zip(OTHERS, own, strict=True)]

    member.request("delta", _encode(news()))  # from now on their certificates are known
    sample = own[0].sign(announcement(OTHERS[0], 1))
    refused = refusals(member, sample)
    yield from process.refused(refused)
    half = len(liars) // 2
    lies = [post(b"delta", message) for message in itertools.islice(_forged(own, versions), half)]
    yield _measure_lies(port, f"{len(OTHERS)} false signatures", liars[:half], lies)
    forged_lists = [post(b"delta", _forged_list())] * half
    yield _measure_lies(port, "a revocation list with a false signature", liars[half:], forged_lists)
    yield from process.refused({"false signatures again": liars[0].refused(403, lies[0])})

    base = process.cpu_ms(lambda: member.request("gossip", msgspec.msgpack.encode(EMPTY)))
    yield Row("accepted: an empty digest", "ms of CPU", base, ACCEPTED_CPU_MS)
    ready = [_encode(news()) for _ in range(2 * process.repeat)]
    small = iter(ready)
    cost = process.cpu_ms(lambda: member.request("delta", next(small)), process.repeat)
    yield Row(f"accepted: {len(OTHERS)} announcements", "ms of CPU", cost, ACCEPTED_CPU_MS)
    large = [_encode(news(shares=shares)) for _ in range(process.repeat + 20)]
    messages = iter(large)
    digest = msgspec.msgpack.encode(_digest(MAX_EDGES))
    taken = {
        f"{len(OTHERS)} large announcements": Accepted(
            lambda: member.request("delta", next(messages)), len(large[0]) / 1e6, ANNOUNCEMENTS_CPU_MS_PER_MB
        ),
        f"a digest of {MAX_EDGES} edges": Accepted(
            lambda: member.request("gossip", digest), len(digest) / 1e6, DIGEST_CPU_MS_PER_MB
        ),
    }
    yield from process.accepted(taken)
    works = {name: one.work for name, one in taken.items()}
    works |= {name: work for name, work in refused.items() if "MB" in name or "announcement" in name}
    yield from process.memory(works, max_request_bytes(max_keys([CAPACITY])))  # that a member may have sent at once
    yield from process.held(works)


def measure(folder: Path, *, quick: bool) -> Iterator[Row]:
    """Measure gossip. quick: with few repetitions."""
    repeat = 6 if quick else 21
    liars = [f"liar{number}" for number in range(2 * repeat)]
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(PeerPort(folder, [MEMBER, *liars, *OTHERS], repeat))
        members = [stack.enter_context(contextlib.closing(Member(port, name))) for name in (MEMBER, *liars)]
        yield from measure_port(port, members[1:], members[0])
