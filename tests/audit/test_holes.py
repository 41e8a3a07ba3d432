"""What one user can do to what peers see, read as an attacker: each test is an attack on the mechanism itself."""

from collections.abc import Sequence
from math import sqrt

import torch
from torch import Tensor, nn

from alphaedge.core.batch import Batch, compact
from alphaedge.core.fields import Field
from alphaedge.core.model import Model
from alphaedge.core.privacy.accountant import NOISE_DELTA, mu_of
from alphaedge.core.privacy.clipping import clip_weights, lengths, weighted_sum
from alphaedge.core.privacy.ledger import Ledger
from alphaedge.core.privacy.lot import Lot
from alphaedge.core.privacy.mechanism import Mechanism
from alphaedge.core.privacy.per_example import PerExampleGradients
from alphaedge.core.privacy.release import PrivateLearning
from alphaedge.core.privacy.settings import Privacy
from alphaedge.core.state import ModelState
from alphaedge.models.deepfm import deepfm


def silence(edges: Sequence[int], *shape: int) -> Tensor:
    return torch.zeros(len(edges), *shape)


def user_sum(labels: list[float], users: list[int], inputs: Tensor) -> Tensor:
    """The clipped sum of a linear regression on numbers, as a private step computes it."""
    model = Model(nn.Linear(inputs.shape[1], 1), fields=["x"], loss="mse")
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.zero_()
    events = Batch((inputs.unsqueeze(0),), (), torch.tensor([labels]))
    lot = Lot.of_users(events, torch.tensor([users]), torch.ones(1, len(labels), dtype=torch.bool))
    found = PerExampleGradients(model)(ModelState.start([model], [0]), events).finite()
    return weighted_sum(found, clip_weights(found, lengths(found), lot, 1.0), model.dense_size)[0]


def test_a_user_with_a_wild_label_changes_the_sum_by_at_most_the_clip() -> None:
    inputs = torch.eye(4)
    without = user_sum([1.0, 1.0, 1.0], [0, 1, 2], inputs[:3])
    with_one = user_sum([1.0, 1.0, 1.0, 1e25], [0, 1, 2, 3], inputs)
    assert (with_one - without).norm() <= 1.001


def test_a_user_whose_gradients_cancel_adds_at_most_the_clip() -> None:
    generator = torch.Generator().manual_seed(0)
    longest = 0.0
    for _ in range(20):
        same = torch.randn(1, 20, generator=generator)
        inputs = torch.cat([same, same + 1e-4 * torch.randn(1, 20, generator=generator)])
        longest = max(longest, float(user_sum([3e4, -3e4], [0, 0], inputs).norm()))
    assert longest <= 1.01


def counted(privacy: Privacy, windows: int, *, there: bool) -> tuple[Tensor, float]:
    """The tallies of items without noise after a user named the first of them in every window; and their noise."""
    model = deepfm([Field("user", "id", 3), Field("item", "id", 3)], dim=2, hidden=(2,))
    gradients = PerExampleGradients(model)
    learning = PrivateLearning(gradients, Mechanism.of(privacy, model, gradients.statistics, 21), privacy.rate)
    released, ledger = learning.start(ModelState.start([model], [0])), Ledger[int]()
    released.scaled[:] = True
    for window in range(windows):
        ledger.open(window, learning.period(released, 0))
        users = torch.tensor([[0] * 20 + [1]])
        counts, in_tallies = torch.tensor(ledger.admit(privacy, users[0].tolist())).unsqueeze(1).unbind(0)
        inputs, rows = compact([users, users], model.tables)
        events = Batch(tuple(inputs), tuple(rows), torch.ones_like(users, dtype=torch.float32))
        lot = Lot.of_users(events, users, counts, in_tallies).where(there | (users == 1))
        learning.step(released, torch.tensor([0]), lot, silence)
    return released.counts[0][0, :3, :2], learning.mechanism.tally_noise


def test_a_user_of_many_windows_moves_tallies_no_further_than_the_accountant_says() -> None:
    """Over w windows the promise is that of sqrt(w) mu; tallies that get noise together move by w."""
    privacy, windows = Privacy(epsilon=1.0, user="user", tables=("item",), tally_batches=50), 50
    (with_user, noise), (without, _) = (counted(privacy, windows, there=there) for there in (True, False))
    shift = float((with_user - without).norm()) / noise
    assert shift <= sqrt(windows) * mu_of(privacy.epsilon, NOISE_DELTA * privacy.delta)
