"""Cold start: an id that is new here and known to peers starts from what they know."""

import shutil
from itertools import islice
from pathlib import Path

import pytest
import torch

from alphaedge.edge.config import load
from alphaedge.edge.learning.cold_start import MAX_IDS, RETRY_SECONDS, Adopted, AdoptionLog, NewIds, weighted_rows
from alphaedge.edge.learning.loop import LearningLoop
from alphaedge.edge.learning.publication import PulledModel
from alphaedge.edge.store.learned_mark import read_learned_mark
from alphaedge.edge.store.status import LearnerStatus, read_learner_status

from ..processes import BATCH, EVERY, Edge, events, fleet_of, send, teach, tell, wait_for


def pull(keys: list[int], rows: list[list[float]]) -> PulledModel:
    return PulledModel(
        1, 1, torch.empty(0), {}, (torch.tensor(keys, dtype=torch.long),), (torch.tensor(rows).view(-1, 2),)
    )


def test_a_row_counts_as_far_as_its_peer_is_trusted_and_is_cut_to_the_usual_length() -> None:
    (found,) = weighted_rows({"a": 2.0}, {"a": pull([5], [[3.0, 4.0]])}, trust={"a": 0.5})
    assert found.rows.tolist() == [[1.5, 2.0]]
    (found,) = weighted_rows({"a": 2.0}, {"a": pull([5, 6], [[3.0, 4.0], [0.3, 0.4]])}, usual=[1.0])
    assert found.rows.flatten().tolist() == pytest.approx([0.6, 0.8, 0.3, 0.4])


def test_what_several_peers_know_is_mixed_by_their_weights() -> None:
    (found,) = weighted_rows(
        {"a": 3.0, "b": 1.0, "c": 0.0},
        {
            "a": pull([7, 5], [[4.0, 0.0], [1.0, 1.0]]),
            "b": pull([7], [[0.0, 8.0]]),
            "c": pull([9], [[9.0, 9.0]]),
        },
    )
    assert found.keys.tolist() == [5, 7], "9 is known to somebody without a weight alone"
    assert found.rows.tolist() == [[1.0, 1.0], [3.0, 2.0]]
    assert weighted_rows({}, {}) == []


def test_a_stranger_is_asked_for_once_in_a_while_and_never_too_many_at_once() -> None:
    strangers = NewIds()
    assert [k.tolist() for k in strangers.pick([[3, 3, 4], []], now=0.0)] == [[3, 4], []]
    assert [k.tolist() for k in strangers.pick([[3, 5], [3]], now=1.0)] == [[5], [3]], "each table has its own ids"
    assert strangers.pick([[3]], now=RETRY_SECONDS)[0].tolist() == [3]
    assert len(strangers.pick([range(10 * MAX_IDS)], now=0.0)[0]) == MAX_IDS


def test_adoptions_are_found_again_at_their_moment(tmp_path: Path) -> None:
    log = AdoptionLog(tmp_path / "adopted.db", "s")
    one = Adopted(1, torch.tensor([5, 2**47]), torch.randn(2, 3, dtype=torch.float64))
    log.append((2, 80), one)
    log.append((3, 120), one)
    again = AdoptionLog(tmp_path / "adopted.db", "s")
    (found,) = again.at((2, 80))
    assert found.table == 1
    assert torch.equal(found.keys, one.keys)
    assert torch.equal(found.rows, one.rows)
    assert again.at((2, 81)) == []
    assert AdoptionLog(tmp_path / "adopted.db", "another").at((2, 80)) == [], (
        "rows of one model are nothing for another"
    )
    again.forget(3)
    assert again.at((2, 80)) == []
    assert len(again.at((3, 120))) == 1


@pytest.mark.timeout(600)
def test_an_edge_adopts_rows_of_a_proven_peer_at_first_sight_and_again_after_a_crash(tmp_path: Path) -> None:
    with fleet_of(tmp_path, [("berlin", "DE"), ("boston", "US")]) as (berlin, boston):
        teach(berlin, 6, seed=1)

        def status_of(edge: Edge) -> LearnerStatus:
            status = read_learner_status(edge.folder / "data" / "status.json")
            assert status is not None
            return status

        # Boston has never met items 2 and 3. It learns from the others, and mixes with berlin, which stands its trials.
        others = (e for e in events(2000, seed=2) if e[1] not in (2, 3))

        def has_mixed() -> bool:
            period = list(islice(others, BATCH * EVERY))
            before = read_learned_mark(boston.folder / "data").newest
            assert tell(boston, send(boston, period))["accepted"] == len(period)
            wait_for(lambda: read_learned_mark(boston.folder / "data").newest == before + len(period), "a round")
            wait_for(lambda: status_of(boston).batches * BATCH == before + len(period), "its status")
            return status_of(boston).peers["berlin"].share > 0

        assert status_of(boston).adopted_rows == 0, "nobody has proven anything yet"
        wait_for(has_mixed, "boston to mix berlin's model in")
        before, _ = boston.predict(["new"] * 2, [2, 3], [[0.0, 0.0]] * 2)
        batches = status_of(boston).batches

        def adopted(edge: Edge) -> int:
            return status_of(edge).adopted_rows

        def adopted_items() -> bool:
            # A request that fails, as on a busy machine, is repeated a minute later if the id is still in use.
            boston.predict(["new"] * 2, [2, 3], [[0.0, 0.0]] * 2)
            return adopted(boston) >= already + 2

        already = adopted(boston)
        wait_for(adopted_items, "boston to adopt the rows of items 2 and 3", 3 * RETRY_SECONDS)
        even, odd = boston.predict(["new"] * 2, [2, 3], [[0.0, 0.0]] * 2)[0]
        assert even - odd > before[0] - before[1], "berlin knows that people like even items"
        # Some batches on top, not yet a period: after a crash all of it is there again, from the log and the journal.
        told = send(boston, list(islice(others, (EVERY - 1) * BATCH)))
        assert tell(boston, told)["accepted"] == len(told)

        def learned() -> bool:
            return status_of(boston).batches == batches + EVERY - 1

        wait_for(learned, "boston to have learned")
        was, _ = boston.predict(["new"] * 2, [2, 3], [[0.0, 0.0]] * 2)
        boston.kill()
        shutil.rmtree(boston.folder / "data" / "parameters")
        again = LearningLoop(load(boston.path), boston.folder)
        assert again.status.adopted_rows >= 2, "since the last checkpoint"
        boston.start()
        assert boston.predict(["new"] * 2, [2, 3], [[0.0, 0.0]] * 2)[0] == was
