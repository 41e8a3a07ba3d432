"""The judge goes by the losses that are revealed, and by no others."""

import pytest
import torch

from alphaedge import Home
from alphaedge.simulation.judge import Judge


def shares(judge: Judge, leads: list[float], edge: int = 0) -> list[float]:
    """The mixed model's share in each prediction, when it beats home by ``leads``, relative to both, in turn."""
    lead = torch.tensor([leads])
    found = judge.shares(torch.tensor([edge]), lead == lead, torch.ones_like(lead), (2 + lead) / (2 - lead))
    return [float(share) for share in found[0]]


def expected(leads: list[float], delay: int, home: Home) -> list[float]:
    """By the formula: G <- memory G + lead of batch t - delay, once it is revealed."""
    total, found = 0.0, []
    for t in range(len(leads)):
        if t - delay - 1 >= 0:
            total = home.memory * total + leads[t - delay - 1]
        found.append(float(torch.sigmoid(torch.tensor(home.trust + home.temperature * total))))
    return found


LEADS = [0.3, -0.2, 0.5, 0.1, -0.9, 0.4, 0.2, 0.2, -0.1]


@pytest.mark.parametrize("delay", [0, 1, 3, 20])
def test_losses_count_from_when_they_are_revealed(delay: int) -> None:
    home = Home(memory=0.9, temperature=2.0, trust=0.3)
    judge = Judge(home, 1, delay, torch.float32)
    assert shares(judge, LEADS) == pytest.approx(expected(LEADS, delay, home), abs=1e-5)


@pytest.mark.parametrize("delay", [0, 2])
def test_nothing_revealed_means_no_more_than_trust(delay: int) -> None:
    judge = Judge(Home(trust=0.0), 1, delay, torch.float32)
    assert shares(judge, LEADS[: delay + 1]) == [0.5] * (delay + 1)


def test_without_blending_the_better_one_predicts_alone() -> None:
    judge = Judge(Home(blend=False, trust=0.0), 1, 0, torch.float32)
    assert shares(judge, [0.5, 0.5, -1.9, 1.0]) == [1.0, 1.0, 1.0, 0.0]


def test_edges_are_judged_apart() -> None:
    judge = Judge(Home(trust=0.0), 3, 0, torch.float32)
    shares(judge, [1.9, 1.9], edge=1)
    assert shares(judge, [0.0], edge=0) == [0.5]
    assert shares(judge, [0.0], edge=1)[0] > 0.99
    assert shares(judge, [0.0], edge=2) == [0.5]


def test_edges_asked_together_are_judged_as_alone() -> None:
    together, alone = (Judge(Home(), 2, 1, torch.float32) for _ in range(2))
    leads = torch.tensor([[0.4, 0.1, -0.5, 0.2], [-0.2, 0.3, 0.2, 0.2]])
    predicted = torch.tensor([[True, True, True, True], [True, False, True, True]])
    found = together.shares(torch.tensor([1, 0]), predicted, torch.ones(2, 4), (2 + leads) / (2 - leads))
    assert found[0].tolist() == pytest.approx(shares(alone, leads[0].tolist(), edge=1), abs=1e-6)
    assert found[1, predicted[1]].tolist() == pytest.approx(
        shares(alone, leads[1, predicted[1]].tolist(), edge=0), abs=1e-6
    )
