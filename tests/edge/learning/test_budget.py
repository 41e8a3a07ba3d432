"""An edge whose budget is spent publishes nothing new, says so, and does not start again as if nothing had happened."""

import datetime as dt
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alphaedge.core.privacy.accountant import epsilon_after, windows_allowed
from alphaedge.edge.check import check_edge
from alphaedge.edge.config import load
from alphaedge.edge.inputs.features import Features
from alphaedge.edge.learning.loop import LearningLoop
from alphaedge.edge.serving.metrics import Metrics
from alphaedge.edge.store.journal import Journal
from alphaedge.edge.store.status import read_learner_status
from alphaedge.errors import InvalidValue
from alphaedge.monitoring.health import edge_health

from ..processes import BATCH, CONFIG, EVERY, Edge, events
from .private import released

DAY = 86_400.0
PRIVACY: dict[str, Any] = {"epsilon": 8.0, "user": "user", "total_epsilon": 13.0}
METHOD = {**CONFIG["method"], "privacy": PRIVACY}
ROUNDS = 8  # one a day; the first lot is complete in the third


def days(folder: Path, rounds: int = ROUNDS, **changes: Any) -> LearningLoop:
    """A learner with feedback of a round on each day, from the first of 1970 on."""
    config = load(Edge(folder, method={**METHOD, "privacy": PRIVACY | changes}).path)
    features = Features(config.model.fields, b"secret")
    journal = Journal(folder / "data" / "journal.db", layout=features.layout)
    for day in range(rounds):
        some = events(EVERY * BATCH, seed=day)
        inputs = {
            "user": np.array([e[0].encode() for e in some], dtype=object),
            "item": np.array([e[1] for e in some]),
            "x": np.array([e[2] for e in some], dtype=np.float32),
        }
        packed = features.to_bytes(features.encode(inputs))
        ids = journal.record_predictions(packed, [0.5] * len(some), day * DAY + 1)
        journal.record_feedback([(i, e[3]) for i, e in zip(ids, some, strict=True)], day * DAY + 2)
    journal.close()
    return LearningLoop(config, folder)


def test_nothing_is_published_once_the_budget_of_all_windows_is_spent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loop, published = days(tmp_path), []
    privacy = released(loop.learner).privacy
    assert windows_allowed(privacy) == 2
    with caplog.at_level(logging.WARNING):
        for _ in range(ROUNDS):
            while loop.step():
                pass
            loop.start_round()
            published.append(loop.learner.publication.number)
            loop.finish_round({}, ["berlin"], {})
    assert published == [0, 0, 1, 2, 2, 2, 2, 2]
    assert [record.message for record in caplog.records].count("privacy_budget_spent") == 1
    private = released(loop.learner)
    assert private.exhausted
    assert private.waiting == [], "batches do not pile up"
    assert loop.learner.revealed == ROUNDS * EVERY, "the edge learns on for itself"

    loop.report({}, 1.0)
    status = read_learner_status(tmp_path / "data" / "status.json")
    assert status is not None
    assert (status.budget_spent, status.privacy_windows) == (True, 2)
    assert status.privacy_epsilon == epsilon_after(privacy, 2)
    view = status.fleet["berlin"]
    assert edge_health("berlin", view, status.fleet).state == "budget spent"
    assert (
        b"alphaedge_privacy_budget_spent 1.0"
        in Metrics(tmp_path / "data" / "status.json", lambda: 0, lambda: 2.0).render()
    )

    again = LearningLoop(loop.config, tmp_path)
    assert released(again.learner).exhausted
    assert again.learner.publication.number == 2


def test_an_edge_whose_budget_is_spent_is_not_started(tmp_path: Path) -> None:
    loop = days(tmp_path)
    while loop.step_alone():
        pass
    last = dt.datetime.fromtimestamp(ROUNDS * DAY, dt.UTC)
    needed = f"{epsilon_after(released(loop.learner).privacy, 3):.4g}"
    with pytest.raises(InvalidValue, match=rf"method\.privacy\.total_epsilon.*13.*{needed} or more"):
        check_edge(loop.config, tmp_path, last)
    Edge(tmp_path, method={**METHOD, "privacy": PRIVACY | {"total_epsilon": 20.0}})
    config = load(tmp_path / "edge.toml")
    assert check_edge(config, tmp_path, last)
    assert not released(LearningLoop(config, tmp_path).learner).exhausted


def test_edge_check_says_what_is_promised(tmp_path: Path) -> None:
    config = load(Edge(tmp_path, method=METHOD).path)
    (promise,) = [line for line in check_edge(config, tmp_path, dt.datetime.now(dt.UTC)) if "privacy" in line]
    assert promise.startswith(
        "privacy: epsilon 8 and delta 1e-06 for each user in every 24 hours; over 30 of these epsi"
    )


@pytest.mark.parametrize("changes", [{"user": "x"}, {"user": "nobody"}, {"tables": ["x"]}, {"tables": ["nobody"]}])
def test_fields_that_can_be_no_users_or_tables_are_refused_with_those_that_can(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    config = load(Edge(tmp_path, method={**METHOD, "privacy": {"epsilon": 8.0, **changes}}).path)
    with pytest.raises(InvalidValue, match=r"privacy\.(user|tables).*user, item"):
        check_edge(config, tmp_path, dt.datetime.now(dt.UTC))
