"""The judge goes by the losses that are revealed, and by no others."""

import pytest
import torch
from torch import Tensor

from alphaedge import Home
from alphaedge.core.home import no_evidence
from alphaedge.simulation.judge import Judge


def parabolas(best: list[float]) -> Tensor:
    """Losses of batches whose best shares are these."""
    return torch.tensor([[1.0, -2.0 * share] for share in best])


def shares(judge: Judge, best: list[float], edge: int = 0) -> list[float]:
    """The mixed model's share in each prediction, when these turn out to have been the best ones."""
    losses = parabolas(best).unsqueeze(0)
    found = judge.shares(torch.tensor([edge]), torch.ones(1, len(best), dtype=torch.bool), losses)
    return [float(share) for share in found[0]]


def expected(best: list[float], delay: int, home: Home) -> list[float]:
    """What one edge would do, batch by batch."""
    evidence, found = no_evidence(1, torch.float32), list[float]()
    for t in range(len(best)):
        if t - delay - 1 >= 0:
            evidence = home.update(evidence, parabolas([best[t - delay - 1]]))
        found.append(float(home.share(evidence)))
    return found


BEST = [0.9, 0.2, 0.5, 0.1, 0.9, 0.4, 0.2, 0.2, 0.8]


@pytest.mark.parametrize("delay", [0, 1, 3, 20])
def test_losses_count_from_when_they_are_revealed(delay: int) -> None:
    home = Home(memory=0.9, start=0.3)
    judge = Judge(home, 1, delay, torch.float32)
    assert shares(judge, BEST) == pytest.approx(expected(BEST, delay, home), abs=1e-5)


@pytest.mark.parametrize("delay", [0, 1, 3])
def test_a_stream_in_spans_is_judged_like_one_in_whole(delay: int) -> None:
    whole, parts = (Judge(Home(), 1, delay, torch.float32) for _ in range(2))
    assert shares(whole, BEST) == pytest.approx(shares(parts, BEST[:4]) + shares(parts, BEST[4:]), abs=1e-6)


@pytest.mark.parametrize("delay", [0, 2])
def test_nothing_revealed_means_the_first_share(delay: int) -> None:
    judge = Judge(Home(start=0.25), 1, delay, torch.float32)
    assert shares(judge, BEST[: delay + 1]) == [0.25] * (delay + 1)


def test_edges_are_judged_apart() -> None:
    judge = Judge(Home(start=0.5), 3, 0, torch.float32)
    shares(judge, [1.0] * 40, edge=1)
    assert shares(judge, [0.0], edge=0) == [0.5]
    assert shares(judge, [0.0], edge=1)[0] > 0.9
    assert shares(judge, [0.0], edge=2) == [0.5]


def test_edges_asked_together_are_judged_as_alone() -> None:
    together, alone = (Judge(Home(), 2, 1, torch.float32) for _ in range(2))
    best = [[0.4, 0.1, 0.5, 0.2], [0.2, 0.3, 0.2, 0.9]]
    predicted = torch.tensor([[True, True, True, True], [True, False, True, True]])
    found = together.shares(torch.tensor([1, 0]), predicted, torch.stack([parabolas(some) for some in best]))
    assert found[0].tolist() == pytest.approx(shares(alone, best[0], edge=1), abs=1e-6)
    left = [share for share, there in zip(best[1], predicted[1].tolist(), strict=True) if there]
    assert found[1, predicted[1]].tolist() == pytest.approx(shares(alone, left, edge=0), abs=1e-6)


def test_a_mixed_model_that_starts_anew_is_judged_anew() -> None:
    judge = Judge(Home(start=0.5, reset_after=5), 1, 2, torch.float32)
    shares(judge, [0.0] * 60)
    assert judge.lost([0]) == [0]
    judge.forget([0])
    assert judge.lost([0]) == []
    assert shares(judge, [0.5] * 3) == [0.5] * 3
