"""An edge warns before its certificate expires, a few times and not more."""

import datetime as dt
from pathlib import Path

import pytest

from alphaedge.edge.trust.authority import CertificateFolder
from alphaedge.edge.trust.certificates import Identity
from alphaedge.edge.trust.expiry import ExpiryAlarm

from ..credentials import load_credentials, utc_now

DAY = dt.timedelta(days=1)
END = dt.datetime(2030, 5, 1, tzinfo=dt.UTC)


def identity(serial: int) -> Identity:
    return Identity("berlin", "DE", (), END - 90 * DAY, END, serial)


def test_warnings_come_two_weeks_before_and_more_often_towards_the_end() -> None:
    alarm, warned = ExpiryAlarm(), []
    for hour in range(24 * 90, -48, -1):
        warned += [hour / 24 for _ in alarm.check(identity(1), hour / 24, is_revoked=False)]
    assert warned == [14, 7, 3, 2, 1, 0]


def test_a_renewed_certificate_is_warned_of_anew() -> None:
    alarm = ExpiryAlarm()
    assert len(list(alarm.check(identity(1), 5.0, is_revoked=False))) == 1
    assert not list(alarm.check(identity(1), 4.0, is_revoked=False))
    assert not list(alarm.check(identity(2), 90.0, is_revoked=False))
    assert [event for event, _ in alarm.check(identity(2), 13.0, is_revoked=False)] == ["certificate_expires"]


def test_an_edge_that_starts_late_warns_at_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder, now = CertificateFolder(tmp_path), utc_now()
    folder.init("shops", now=now, days=100)
    folder.issue("berlin", "DE", ["127.0.0.1"], now=now, days=5)
    berlin = load_credentials(tmp_path, "berlin")
    assert caplog.messages == ["certificate_expires"]
    assert berlin.days_left() == pytest.approx(5.0, abs=0.01)
    folder.renew(["berlin"], now=now, days=50)
    assert berlin.refresh()
    assert berlin.days_left() == pytest.approx(50.0, abs=0.01)
    assert berlin.incarnation.number == 2, "peers must not check new heartbeats with the old key"
    assert caplog.messages.count("certificate_expires") == 1
