"""The service that the server and an embedded edge share, without HTTP."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from alphaedge.edge.config import load
from alphaedge.edge.learning.loop import LearningLoop
from alphaedge.edge.server_process import journal_clock
from alphaedge.edge.serving.service import PredictionService
from alphaedge.edge.store.journal import Journal
from alphaedge.errors import JournalError, ParametersError

from ..processes import CONFIG, Edge


def test_a_service_that_does_not_start_leaves_its_folder_free(tmp_path: Path) -> None:
    config = load(Edge(tmp_path).path)
    journal = tmp_path / "data" / "journal.db"
    journal.parent.mkdir()
    journal.write_bytes(b"no journal" * 100)
    with pytest.raises(JournalError, match="can't be opened"):
        PredictionService(config, tmp_path, journal_clock)
    journal.unlink()

    def broken(_: Journal) -> Callable[[], float]:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        PredictionService(config, tmp_path, broken)
    PredictionService(config, tmp_path, journal_clock).close()
    PredictionService(config, tmp_path, journal_clock).close()


def test_an_edge_is_ready_only_while_it_can_predict_from_what_the_learner_hands_over(tmp_path: Path) -> None:
    config = load(Edge(tmp_path).path)
    service = PredictionService(config, tmp_path, journal_clock)
    LearningLoop(config, tmp_path)
    asyncio.run(service.check_ready())
    LearningLoop(load(Edge(tmp_path, model=CONFIG["model"] | {"hidden": [16]}).path), tmp_path)
    with pytest.raises(ParametersError, match="has not written parameters of this model"):
        asyncio.run(service.check_ready())
    LearningLoop(config, tmp_path)
    asyncio.run(service.check_ready())
    service.close()
