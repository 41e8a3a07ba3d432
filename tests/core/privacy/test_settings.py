"""Bad promises are refused, with what is allowed."""

from typing import Any

import pytest

from alphaedge.core.privacy.settings import Privacy
from alphaedge.errors import InvalidValue


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("epsilon", 0.0),
        ("epsilon", -1.0),
        ("epsilon", 1000.0),
        ("delta", 0.0),
        ("delta", 0.5),
        ("clip", 0.0),
        ("rate", 0.0),
        ("window_seconds", 0.0),
        ("participations", 0),
        ("lot_batches", 0),
        ("tally_batches", 0),
        ("total_epsilon", 1.0),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(field: str, value: float) -> None:
    settings: dict[str, Any] = {"user": "user", field: value}
    with pytest.raises(InvalidValue, match=rf"privacy\.{field}: found .*; allowed: "):
        Privacy(**settings)


def test_an_event_counts_once_so_participations_need_a_user() -> None:
    with pytest.raises(InvalidValue, match=r"privacy\.participations"):
        Privacy(participations=2)


def test_rows_of_users_never_leave() -> None:
    with pytest.raises(InvalidValue, match=r"privacy\.tables: found 'user'"):
        Privacy(user="user", tables=("item", "user"))


def test_windows_follow_each_other() -> None:
    privacy = Privacy(window_seconds=3600)
    assert [privacy.window(t) for t in (0, 3599.9, 3600, 7200)] == [0, 0, 1, 2]
