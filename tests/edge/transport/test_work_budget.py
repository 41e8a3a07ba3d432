"""A member's requests take no more than a share of this edge's time, in the long run."""

from hypothesis import given
from hypothesis import strategies as st

from alphaedge.edge.transport import work_budget
from alphaedge.edge.transport.work_budget import WorkBudget


@given(st.lists(st.tuples(st.floats(0.001, 5.0), st.floats(0.0, 20.0)), max_size=100))
def test_however_often_it_asks_a_member_gets_its_share(requests: list[tuple[float, float]]) -> None:
    budget, now, worked = WorkBudget(share=0.1, burst=3.0), 0.0, 0.0
    for seconds, pause in requests:
        now += pause
        if not budget.wait("ann", now):
            budget.spend("ann", seconds, now)
            worked += seconds
        assert worked <= 0.1 * now + 3.0 + 5.0 + 1e-6, "the share, what may come at once, and the last request"


def test_a_member_may_ask_again_after_its_wait() -> None:
    budget = WorkBudget(share=0.1, burst=3.0)
    for _ in range(10):
        budget.spend("ann", 1.0, now=50.0)
    wait = budget.wait("ann", now=50.0)
    assert wait == 70.0
    assert budget.wait("ann", now=50.0 + wait) == 0.0
    assert budget.wait("bob", now=50.0) == 0.0


def test_members_without_end_are_forgotten() -> None:
    budget = WorkBudget()
    for number in range(work_budget.MAX_MEMBERS + 100):
        budget.spend(f"edge-{number}", 100.0, now=0.0)
    assert not budget.wait("edge-0", now=0.0)
    assert budget.wait(f"edge-{work_budget.MAX_MEMBERS}", now=0.0)
