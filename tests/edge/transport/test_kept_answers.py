"""Answers that are kept to be resumed take a bounded number of bytes."""

import pytest

from alphaedge.edge.transport import kept_answers
from alphaedge.edge.transport.kept_answers import MIN_KEPT_BYTES, KeptAnswers

ANSWER = bytes(range(256)) * (MIN_KEPT_BYTES // 256)


def test_each_member_has_its_last_large_answer_kept() -> None:
    kept = KeptAnswers()
    assert kept.keep("ann", b"short") is None
    first, second = kept.keep("ann", ANSWER), kept.keep("ann", ANSWER)
    assert first is not None
    assert second is not None
    assert kept.rest("ann", first, "0") is None
    assert kept.rest("bob", second, "0") is None
    assert kept.rest("ann", second, "1000") == ANSWER[1000:]
    assert kept.bytes == len(ANSWER)


@pytest.mark.parametrize("start", ["", "x", "-1", "1e3", "\u00b2", "9" * 30, str(len(ANSWER) + 1)])
def test_a_start_that_is_no_place_in_the_answer_gives_nothing(start: str) -> None:
    kept = KeptAnswers()
    token = kept.keep("ann", ANSWER)
    assert token is not None
    assert kept.rest("ann", token, start) is None


def test_the_oldest_go_when_they_are_too_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_answers, "MAX_KEPT_BYTES", 3 * len(ANSWER))
    kept = KeptAnswers()
    tokens = {member: kept.keep(member, ANSWER) or "" for member in ("ann", "bob", "cem", "dora")}
    assert [kept.rest(member, token, "0") is not None for member, token in tokens.items()] == [False, True, True, True]
    large = kept.keep("eva", 5 * ANSWER) or ""
    assert kept.rest("eva", large, "0") is not None, "a single one may be larger"
    assert kept.bytes == 5 * len(ANSWER)
