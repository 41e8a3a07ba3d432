"""From a budget of memory to how many tasks run at once, with how many seeds each and how many models a step."""

from typing import Final, NamedTuple, final

from alphaedge.errors import InvalidValue
from alphaedge.simulation.memory.need import Need
from alphaedge.simulation.memory.size import show_size

SMALLEST_BLOCK: Final = 16


@final
class Plan(NamedTuple):
    """Tasks at once, seeds of a task, and models that learn at once."""

    jobs: int
    stack: int
    block: int


def fit(budget: int, need: Need, wish: Plan) -> Plan:
    """The largest plan within a budget of bytes, and no larger than one wishes.

    Seeds come apart first, then there are fewer tasks at once, then smaller steps: in this order it costs the least
    time.
    """
    plans = [wish._replace(stack=seeds) for seeds in range(wish.stack, 0, -1)]
    plans += [Plan(jobs, 1, wish.block) for jobs in range(wish.jobs - 1, 0, -1)]
    plans += [Plan(1, 1, 2**power) for power in range(wish.block.bit_length() - 2, SMALLEST_BLOCK.bit_length() - 2, -1)]
    for plan in plans:
        if plan.jobs * need.total(plan.block, plan.stack) <= budget:
            return plan
    allowed = f"at least {show_size(need.total(SMALLEST_BLOCK))} for one run ({need})"
    raise InvalidValue("memory", show_size(budget), allowed)
