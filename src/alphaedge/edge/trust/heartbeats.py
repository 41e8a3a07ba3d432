"""Heartbeats: signed proof that an edge is alive, numbered within its incarnation. No clock orders them."""

from typing import final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec

from alphaedge.edge.trust.announcements import SIGNATURE_ALGORITHM
from alphaedge.edge.trust.incarnation import Count, IncarnationNumber


@final
class Heartbeat(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One heartbeat of an edge.

    incarnation: of the edge. count: grows with every heartbeat of the incarnation. time: milliseconds since 1970 by the
    edge's own clock, from which others measure how far it is off; nothing else depends on it. signature: of the edge,
    ECDSA with SHA-256.
    """

    incarnation: IncarnationNumber
    count: Count
    time: Count
    signature: bytes


def sign_heartbeat(edge: str, key: ec.EllipticCurvePrivateKey, *, incarnation: int, count: int, time: int) -> Heartbeat:
    """Sign a heartbeat with the edge's own key."""
    unsigned = Heartbeat(incarnation, count, time, b"")
    return Heartbeat(incarnation, count, time, key.sign(_encode(edge, unsigned), SIGNATURE_ALGORITHM))


def verify_heartbeat(edge: str, key: ec.EllipticCurvePublicKey, heartbeat: Heartbeat) -> bool:
    """Check that the edge with this key has signed a heartbeat."""
    try:
        key.verify(heartbeat.signature, _encode(edge, heartbeat), SIGNATURE_ALGORITHM)
    except InvalidSignature:
        return False
    return True


def _encode(edge: str, heartbeat: Heartbeat) -> bytes:
    return f"{edge} is alive: {heartbeat.incarnation} {heartbeat.count} at {heartbeat.time}".encode()
