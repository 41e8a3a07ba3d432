"""What private set intersection would cost instead of key lists: CPU and bytes, for one pull and for a fleet.

The protocol is Diffie-Hellman over an elliptic curve. The asking edge sends its ids as points, each multiplied by its
secret number. The answering edge multiplies them by its own, and returns them with its own ids, multiplied once. The
asking edge multiplies those again: ids in common are equal points. Later pulls do the same for ids that are new since.
Points are X25519, the fastest that was found. PyNaCl and openmined.psi are measured too, if they are installed.
"""

import hashlib
import importlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

import torch
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from torch import Tensor

from alphaedge.edge.inputs.lookup import find_rows
from alphaedge.edge.learning.publication import PullRequest
from alphaedge.edge.peers.key_lists import KeyList, pack_places, unpack_places
from alphaedge.edge.peers.wire import pack_request, unpack_request
from alphaedge.edge.peers.wire_keys import KeyCipher
from alphaedge.edge.trust.wire_secrets import WireSecret
from benchmarks.common import arguments, report

SIZES: Final = (1_000, 10_000, 100_000)
NEW_SHARE: Final = 0.01  # of the ids of an edge, those that are new since the last pull
COMMON_SHARE: Final = 0.5  # of the ids of an edge, those that the other one has too
EDGES, NEIGHBOURS = 35, 5
POINT_BYTES: Final = 32
SHORT_BYTES: Final = 8  # of a point that is only compared: enough of its hash
MEMBER_CPU_SHARE: Final = 0.05  # of a core, what an edge spends on the pulls of one member


@final
@dataclass
class Cost:
    """CPU seconds of the asking and the answering edge, and bytes both ways."""

    asking: float = 0.0
    answering: float = 0.0
    bytes: int = 0

    def figures(self) -> dict[str, float]:
        """As numbers by name."""
        return {"asking_seconds": self.asking, "answering_seconds": self.answering, "bytes": self.bytes}


@final
@dataclass
class Party:
    """One end of a private intersection: its secret number, and what it has multiplied so far."""

    secret: X25519PrivateKey = field(default_factory=X25519PrivateKey.generate)

    def mask(self, keys: Sequence[int]) -> list[bytes]:
        """Own ids as points, multiplied once."""
        return self.mask_again([hashlib.sha256(key.to_bytes(8)).digest() for key in keys])

    def mask_again(self, points: Sequence[bytes]) -> list[bytes]:
        """Points multiplied by the secret number."""
        return [self.secret.exchange(X25519PublicKey.from_public_bytes(point)) for point in points]


@final
@dataclass
class PrivateIntersection:
    """A conversation of two edges that find out which ids they share."""

    asking: Party = field(default_factory=Party)
    answering: Party = field(default_factory=Party)
    _mine: dict[bytes, int] = field(default_factory=dict)  # the asking edge's ids by their points, multiplied twice
    _theirs: list[bytes] = field(default_factory=list)  # the answering edge's ids, multiplied twice

    def pull(self, mine: Sequence[int], theirs: Sequence[int]) -> tuple[Cost, set[int]]:
        """Exchange the ids that are new on both ends; return the cost and all ids in common."""
        cost = Cost()
        began = time.process_time()
        request = self.asking.mask(mine)
        cost.asking = time.process_time() - began
        began = time.process_time()
        back = [_short(point) for point in self.answering.mask_again(request)]
        own = self.answering.mask(theirs)
        cost.answering = time.process_time() - began
        began = time.process_time()
        self._mine |= dict(zip(back, mine, strict=True))
        self._theirs += [_short(point) for point in self.asking.mask_again(own)]
        common = {self._mine[point] for point in self._theirs if point in self._mine}
        cost.asking += time.process_time() - began
        places = -(-len(self._theirs) // 8)  # which of the answering edge's rows are wanted
        cost.bytes = POINT_BYTES * (len(request) + len(own)) + SHORT_BYTES * len(back) + places
        return cost, common


def _short(point: bytes) -> bytes:
    return hashlib.sha256(point).digest()[:SHORT_BYTES]


@final
class KeyLists:
    """A conversation of two edges with key lists. encrypted: as they are, or as they were without wire secrets."""

    def __init__(self, *, encrypted: bool) -> None:
        cipher = KeyCipher(WireSecret(b"a secret of the fleet", b""), "asking", "answering")
        self._cipher: Any = cipher if encrypted else _NoCipher()
        self._sent: KeyList | None = None
        self._lists: list[KeyList] = []

    def pull(self, mine: Tensor, fresh: Tensor, theirs: dict[int, int]) -> tuple[Cost, set[int]]:
        """Name the ids that are new; return the cost and all ids in common. theirs: rows by key."""
        cost = Cost()
        began = time.process_time()
        data, self._sent = pack_request(PullRequest(1, (mine,), (fresh,)), "s", self._sent, self._cipher)
        cost.asking = time.process_time() - began
        began = time.process_time()
        request, made = unpack_request(data, "s", 1, self._lists, lambda _: self._cipher, max_keys=10**6)
        self._lists = [made]
        rows = find_rows(request.keys[0], theirs.get)
        places = pack_places(made.keys[0], request.keys[0][rows >= 0])
        cost.answering = time.process_time() - began
        began = time.process_time()
        common = unpack_places(self._sent.keys[0], places)
        cost.asking += time.process_time() - began
        cost.bytes = len(data) + places.nbytes
        return cost, set(common.tolist())


@final
class _NoCipher:
    """Stored keys as they are."""

    secret = b""

    def encrypt(self, keys: Tensor) -> Tensor:
        return keys

    decrypt = encrypt


def measure(size: int) -> dict[str, dict[str, Cost]]:
    """The cost of a first pull and of one with some new ids, by way and kind."""
    new, shift = max(1, round(NEW_SHARE * size)), round((1 - COMMON_SHARE) * size)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(2**48, (2 * (size + new),), generator=generator)
    mine, theirs = ids[: size + new], ids[shift : shift + size + new]
    expected = set(mine.tolist()) & set(theirs.tolist())
    costs: dict[str, dict[str, Cost]] = {}
    private = PrivateIntersection()
    first, _ = private.pull(mine[:size].tolist(), theirs[:size].tolist())
    more, common = private.pull(mine[size:].tolist(), theirs[size:].tolist())
    assert common == expected
    costs["private intersection"] = {"first": first, "more": more}
    for name, encrypted in (("key lists", True), ("key lists, not encrypted", False)):
        lists = KeyLists(encrypted=encrypted)
        lists.pull(mine[:10], mine[:10], {})  # warm
        lists = KeyLists(encrypted=encrypted)
        rows = {key: row for row, key in enumerate(theirs.tolist())}
        first, _ = lists.pull(mine[:size], mine[:size], rows)
        more, common = lists.pull(mine, mine[size:], rows)
        assert common == expected
        costs[name] = {"first": first, "more": more}
    return costs


# -- one multiplication, by library --


def multiplications(count: int) -> dict[str, float]:
    """Microseconds of CPU of one multiplication of a point, by library; of those that are installed."""
    points = [os.urandom(32) for _ in range(count)]
    found = {"X25519, cryptography": _microseconds(Party().mask_again, points)}
    secret = ec.generate_private_key(ec.SECP256R1())
    made = [ec.generate_private_key(ec.SECP256R1()).public_key() for _ in range(50)]
    encoded = [one.public_bytes(Encoding.X962, PublicFormat.CompressedPoint) for one in made]

    def p256(some: Sequence[bytes]) -> None:
        for one in some:
            secret.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), one))

    found["P-256, cryptography"] = _microseconds(p256, encoded * (count // 50))
    for name, measured in (("edwards25519, PyNaCl", _pynacl), ("P-256, openmined.psi", _openmined)):
        try:
            found[name] = measured(points)
        except ImportError:
            print(f"{name}: not installed")
    return found


def _microseconds(work: Callable[[Sequence[bytes]], object], points: Sequence[bytes]) -> float:
    work(points[:10])
    began = time.process_time()
    work(points)
    return (time.process_time() - began) / len(points) * 1e6


def _pynacl(points: Sequence[bytes]) -> float:
    nacl = importlib.import_module("nacl.bindings")
    secret = nacl.crypto_core_ed25519_scalar_reduce(os.urandom(64))
    on_curve = [nacl.crypto_core_ed25519_from_uniform(point) for point in points]
    return _microseconds(lambda some: [nacl.crypto_scalarmult_ed25519_noclamp(secret, p) for p in some], on_curve)


def _openmined(points: Sequence[bytes]) -> float:
    psi = importlib.import_module("private_set_intersection.python")
    client, server, ids = (
        psi.client.CreateWithNewKey(True),
        psi.server.CreateWithNewKey(True),
        [p.hex() for p in points],
    )
    began = time.process_time()
    setup = server.CreateSetupMessage(0.0, len(ids), ids, psi.DataStructure.RAW)
    answer = server.ProcessRequest(client.CreateRequest(ids))
    client.GetIntersection(setup, answer)
    return (time.process_time() - began) / (4 * len(ids)) * 1e6  # each id of both ends, on both ends


# -- tables --


def _row(size: int, way: str, kind: str, cost: Cost) -> list[str]:
    """One pull, and what that is for an edge that asks and answers five a minute."""
    a_minute = NEIGHBOURS * (cost.asking + cost.answering)
    return [
        f"{size:,}",
        way,
        "first pull" if kind == "first" else f"{NEW_SHARE:.0%} new",
        f"{1e3 * cost.asking:,.1f}",
        f"{1e3 * cost.answering:,.1f}",
        f"{cost.bytes / 1e3:,.1f}",
        f"{a_minute / 60:.2%}",
        f"{EDGES * NEIGHBOURS * cost.bytes / 1e6:,.2f}",
        f"{cost.answering / MEMBER_CPU_SHARE:,.1f}",
    ]


def main() -> None:
    """Print the tables and write the figures."""
    options = arguments("Private set intersection beside key lists.")
    single = multiplications(200 if options.quick else 2000)
    rows, figures = [], {}
    for size in SIZES[:1] if options.quick else SIZES:
        costs = measure(size)
        rows += [_row(size, way, kind, cost) for way, kinds in costs.items() for kind, cost in kinds.items()]
        figures[str(size)] = {way: {kind: c.figures() for kind, c in kinds.items()} for way, kinds in costs.items()}
    title = (
        f"Pulls of ids. Fleet: {EDGES} edges, {NEIGHBOURS} neighbours each, a round a minute, all pulls of this kind"
    )
    columns = ["ids", "way", "pull", "ms asking", "ms answering", "KB"]
    columns += ["core of an edge", "fleet MB/min", "s at 5% of a core"]
    report("One multiplication", ["curve, library", "us"], [[k, f"{v:.1f}"] for k, v in single.items()], {}, None)
    report(title, columns, rows, {"multiplication_us": single, "pulls": figures}, options.json)


if __name__ == "__main__":
    main()
