"""Ids get rows in the order of their appearance, or the least recently used one; a replay gives the same rows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from alphaedge import InvalidValue
from alphaedge.edge.inputs.numbering import Admission, Numbering, key_of

KEYS = st.lists(st.integers(0, 12), max_size=5)


def test_rows_are_taken_in_order_and_kept() -> None:
    ids = Numbering(3)
    assert ids.use([70, 50, 70]) == [Admission(0, 70, None), Admission(1, 50, None)]
    assert ids.use([50]) == []
    assert (ids.find(70), ids.find(50), ids.find(1)) == (0, 1, None)


def test_a_new_id_gets_the_least_recently_used_row() -> None:
    ids = Numbering(2)
    ids.use([1])
    ids.use([2])
    ids.use([1])
    assert ids.use([3]) == [Admission(1, 3, 2)]
    assert 2 not in ids


def test_ids_of_one_batch_never_take_each_others_rows() -> None:
    ids = Numbering(2)
    ids.use([1, 2])
    assert ids.use([3, 1]) == [Admission(1, 3, 2)], "1 is the older one, but it is used in the same batch"
    assert ids.use([4, 3, 5]) == [Admission(0, 4, 1)], "3 keeps its row, and 5 gets none"
    assert ids.use([6, 7, 8, 9]) == [Admission(1, 6, 3), Admission(0, 7, 4)]


class Replayed(RuleBasedStateMachine):
    """A numbering against one that is restored before every use, and against a list."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = Numbering(5), Numbering(5)
        self.used: list[int] = []  # the least recently used first

    @rule(keys=KEYS)
    def use(self, keys: list[int]) -> None:
        self.other = Numbering.restore(5, self.other.keys_by_row(), self.other.rows_by_last_use())
        assert self.one.use(keys) == self.other.use(keys)
        fresh = list(dict.fromkeys(keys))
        known = [k for k in fresh if k in self.used]
        rest = [k for k in self.used if k not in fresh]
        self.used = (rest + known + [k for k in fresh if k not in known])[-5:]

    @invariant()
    def right_keys_have_rows_of_their_own(self) -> None:
        assert sorted(self.one.keys_by_row()) == sorted(self.used)
        assert [self.one.keys_by_row()[row] for row in self.one.rows_by_last_use()] == self.used
        assert [self.one.find(k) for k in self.one.keys_by_row()] == list(range(len(self.one)))


TestReplayed = Replayed.TestCase


@pytest.mark.parametrize(("keys", "order"), [([1, 1], [0, 1]), ([1, 2], [0, 0]), ([1, 2], [0]), ([1, 2, 3], [0, 1, 2])])
def test_a_numbering_that_contradicts_itself_is_not_restored(keys: list[int], order: list[int]) -> None:
    with pytest.raises(InvalidValue):
        Numbering.restore(2, keys, order)


@given(st.one_of(st.integers(), st.text(), st.binary()), st.binary(min_size=1, max_size=64))
def test_a_key_depends_on_the_id_and_the_secret_and_fits_an_int64(value: int | str | bytes, secret: bytes) -> None:
    key = key_of(value, secret)
    assert 0 <= key < 2**48
    assert key == key_of(value, secret)
    assert key != key_of(value, secret + b"x")


@pytest.mark.parametrize("secret", [b"", b"s"])
def test_a_text_of_many_digits_is_a_text_as_any_other(secret: bytes) -> None:
    """Python reads and writes whole numbers of up to 4300 digits only."""
    text = "7" * 5000
    assert key_of(text, secret) == key_of(text.encode(), secret) == key_of(text + ".0", secret)
    assert key_of(text, secret) != key_of(text + "7", secret)
    for number in (10**5000, -(10**5000)):
        with pytest.raises(InvalidValue, match="id: found 'a number of 16610 bits'; allowed: text or a shorter number"):
            key_of(number, secret)


def test_an_id_is_the_same_as_a_number_and_as_text() -> None:
    assert key_of(42, b"s") == key_of("42", b"s") == key_of(b"42", b"s")
    assert key_of(42, b"") == 42
