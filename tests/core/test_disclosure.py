"""An id is named once enough users stand behind it, and never too early."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alphaedge import MethodSettings
from alphaedge.core.disclosure import MARKS, Disclosure, enough, mark
from alphaedge.core.methods import alphaedge
from alphaedge.core.privacy.settings import Privacy
from alphaedge.errors import InvalidValue
from alphaedge.models.deepfm import deepfm
from alphaedge.settings import DisclosureSettings

from ..simulation.fleets import shop_data

ROWS = 4
visits = st.lists(st.tuples(st.integers(0, ROWS - 1), st.integers(0, 10**12)), max_size=60)


@given(visits, st.integers(1, 6))
def test_a_row_that_is_named_has_at_least_so_many_users(seen: list[tuple[int, int]], least: int) -> None:
    marks = torch.zeros(1, ROWS, MARKS, dtype=torch.bool)
    for row, user in seen:
        mark(marks, torch.tensor([0]), torch.tensor([[[row]]]), torch.tensor([[user]]))
    named = enough(marks, least)[0]
    for row in range(ROWS):
        users = {user for r, user in seen if r == row}
        assert not named[row] or len(users) >= least
        if len({user % MARKS for user in users}) == len(users):  # without two users at one mark it is exact
            assert bool(named[row]) == (len(users) >= least)


@given(visits)
def test_a_batch_marks_what_its_examples_mark_one_by_one(seen: list[tuple[int, int]]) -> None:
    one, whole = (torch.zeros(1, ROWS, MARKS, dtype=torch.bool) for _ in range(2))
    for row, user in seen:
        mark(one, torch.tensor([0]), torch.tensor([[[row]]]), torch.tensor([[user]]))
    rows, users = (torch.tensor([[x[i] for x in seen]], dtype=torch.long) for i in range(2))
    mark(whole, torch.tensor([0]), rows.unsqueeze(2), users)
    assert torch.equal(one, whole)


@pytest.mark.parametrize("least", [0, 33, 2.5, True])
def test_a_number_of_users_out_of_range_is_refused(least: int) -> None:
    with pytest.raises(InvalidValue, match=r"disclosure\.min_users"):
        Disclosure(min_users=least)


def test_a_field_without_ids_cant_be_local() -> None:
    model = deepfm(shop_data().fields)
    assert Disclosure(local=("user",)).local_tables(model) == {0}
    with pytest.raises(InvalidValue, match=r"disclosure\.local.*numbers"):
        Disclosure(local=("numbers",)).local_tables(model)
    with pytest.raises(InvalidValue, match=r"disclosure\.user.*shopper"):
        Disclosure(min_users=2, user="shopper").local_tables(model)


def test_privacy_has_thresholds_of_its_own() -> None:
    with pytest.raises(InvalidValue, match="disclosure"):
        alphaedge(disclosure=Disclosure(min_users=2), privacy=Privacy())


def test_settings_make_a_method_with_that_disclosure() -> None:
    settings = DisclosureSettings(min_users=5, user="user", local=("user",))
    made = MethodSettings(disclosure=settings).apply("fedweight")
    assert made.disclosure == Disclosure(min_users=5, user="user", local=("user",))
    assert MethodSettings().apply("fedweight").disclosure is None
