"""Keys on the wire: a standard cipher, other keys for each pair and secret, and a request that both ends understand."""

import hashlib
import string

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alphaedge.edge.learning.publication import PullRequest
from alphaedge.edge.peers.key_lists import KeyList, pack_keys
from alphaedge.edge.peers.wire import pack_request, unpack_request
from alphaedge.edge.peers.wire_keys import KEYS_AT_ONCE, KeyCipher, cipher_named
from alphaedge.edge.trust.wire_secrets import WireSecret, WireSecrets
from alphaedge.errors import KeyListError, ModelRefused, SecretUnknown

from . import ff1

FIRST = b"a secret of the fleet"
SECRET, NEWER = WireSecret(FIRST, FIRST), WireSecret(b"a newer secret of the fleet", FIRST)
CIPHER = KeyCipher(SECRET, "berlin", "boston")
KEYS = torch.tensor([0, 1, 5, 2**47, 2**48 - 1])
NIST_KEY = bytes.fromhex("2B7E151628AED2A6ABF7158809CF4F3C")
LETTERS = string.digits + string.ascii_lowercase


@pytest.mark.parametrize(
    ("radix", "tweak", "plain", "encrypted"),
    [
        (10, b"", "0123456789", "2433477484"),
        (10, bytes.fromhex("39383736353433323130"), "0123456789", "6124200773"),
        (36, bytes.fromhex("3737373770717273373737"), "0123456789abcdefghi", "a9tv40mll9kdu509eum"),
    ],
)
def test_the_reference_gives_what_nist_says(radix: int, tweak: bytes, plain: str, encrypted: str) -> None:
    found = ff1.encrypt(NIST_KEY, radix, tweak, [LETTERS.index(letter) for letter in plain])
    assert "".join(LETTERS[digit] for digit in found) == encrypted


@given(st.integers(0, 2**48 - 1))
def test_a_key_is_encrypted_as_ff1_says(key: int) -> None:
    aes = hashlib.blake2b(b"keys\0berlin\0boston", digest_size=32, key=FIRST).digest()
    bits = ff1.encrypt(aes, 2, b"", [int(bit) for bit in f"{key:048b}"])
    assert CIPHER.encrypt(torch.tensor([key])).tolist() == [int("".join(map(str, bits)), 2)]


@given(st.lists(st.integers(0, 2**48 - 1)))
def test_what_is_encrypted_is_decrypted(keys: list[int]) -> None:
    given = torch.tensor(keys, dtype=torch.int64)
    assert torch.equal(CIPHER.decrypt(CIPHER.encrypt(given)), given)


def test_many_keys_are_encrypted_as_one_is_and_none_becomes_another() -> None:
    many = torch.arange(2 * KEYS_AT_ONCE + 3)
    found = CIPHER.encrypt(many)
    assert len(set(found.tolist())) == len(many)
    for place in (0, KEYS_AT_ONCE, len(many) - 1):
        assert torch.equal(found[place : place + 1], CIPHER.encrypt(many[place : place + 1]))


def test_no_two_pairs_no_two_directions_and_no_two_secrets_name_an_id_alike() -> None:
    pairs = [("berlin", "boston"), ("boston", "berlin"), ("berlin", "beijing"), ("beijing", "boston")]
    found = [KeyCipher(secret, *pair).encrypt(KEYS) for pair in pairs for secret in (SECRET, NEWER)]
    assert len(set(torch.cat(found).tolist())) == len(found) * len(KEYS)


@pytest.mark.parametrize("key", [-1, 2**48])
def test_what_is_no_key_is_refused(key: int) -> None:
    for permute in (CIPHER.encrypt, CIPHER.decrypt):
        with pytest.raises(KeyListError, match="more than 48 bits"):
            permute(torch.tensor([5, key]))


def unpack(data: bytes, secrets: WireSecrets, lists: tuple[KeyList, ...] = ()) -> tuple[PullRequest, KeyList]:
    def ciphers(name: bytes) -> KeyCipher:
        return cipher_named(secrets, name, "berlin", "boston")

    return unpack_request(data, "s1", 1, lists, ciphers, max_keys=100)


def request(keys: torch.Tensor) -> PullRequest:
    return PullRequest(4, (keys,), (keys[:0],))


def test_a_key_list_stays_valid_under_a_new_secret() -> None:
    """Both ends keep stored keys, so a rotation makes no edge send its keys again."""
    data, mine = pack_request(request(KEYS), "s1", None, CIPHER)
    _, theirs = unpack(data, WireSecrets(FIRST))
    more = torch.cat([KEYS, torch.tensor([77])])
    data, mine = pack_request(request(more), "s1", mine, KeyCipher(NEWER, "berlin", "boston"))
    secrets = WireSecrets(FIRST)
    secrets._secrets = (NEWER,)
    found, theirs = unpack(data, secrets, (theirs,))
    assert set(found.keys[0].tolist()) == set(more.tolist())
    assert torch.equal(mine.keys[0], theirs.keys[0])
    assert len(msgspec.msgpack.decode(data)[3][0]) < 30, "one key, not all"


def test_keys_under_a_secret_that_is_not_here_are_refused_by_name() -> None:
    data, _ = pack_request(request(KEYS), "s1", None, KeyCipher(NEWER, "berlin", "boston"))
    with pytest.raises(SecretUnknown, match="does not have"):
        unpack(data, WireSecrets(FIRST))
    with pytest.raises(SecretUnknown, match="does not have"):  # the same wire secret, but stored keys of another fleet
        unpack(pack_request(request(KEYS), "s1", None, CIPHER)[0], WireSecrets(b"a secret of other fleet"))


def test_a_request_without_keys_needs_no_secret() -> None:
    data, _ = pack_request(request(KEYS[:0]), "s1", None, KeyCipher(NEWER, "berlin", "boston"))
    assert unpack(data, WireSecrets(FIRST))[0].holds == 4


def test_an_edge_from_before_wire_secrets_is_told_so() -> None:
    """Its requests have one field less, and its keys are not encrypted: they would be taken for others."""
    nothing = pack_keys(KEYS[:0])
    with pytest.raises(SecretUnknown, match="does not have"):
        unpack(msgspec.msgpack.encode(["s1", 4, b"", [pack_keys(KEYS)], [nothing]]), WireSecrets(FIRST))
    assert unpack(msgspec.msgpack.encode(["s1", 4, b"", [nothing], [nothing]]), WireSecrets(FIRST))[0].holds == 4


def test_keys_that_are_none_are_refused_before_anything_is_looked_up() -> None:
    nothing = pack_keys(KEYS[:0])
    wrong = [pack_keys(torch.tensor([2**48]))]
    with pytest.raises(ModelRefused, match="more than 48 bits"):
        unpack(msgspec.msgpack.encode(["s1", 4, b"", wrong, [nothing], SECRET.name]), WireSecrets(FIRST))
