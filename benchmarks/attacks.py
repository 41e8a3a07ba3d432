"""Three honest edges beside one that attacks, against the same fleet with an honest fourth edge.

Per attack: how fast the honest edges learn, as a ratio of the two fleets; the largest share that any of them gave to
the attacker in the first ten rounds and after them; the home model's share 100 batches after the attacker has left; how
far the mean prediction for new users is off; and the honest edges' score. The fourth edge learns as much in either
fleet, so that both have the same cores to share.
"""

import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import final

from alphaedge.attacks.catalog import ATTACKS
from benchmarks.common import arguments, report
from tests.edge.attacks.attacker import TRANSPORT
from tests.edge.attacks.zoo import EVERY, Zoo, zoo
from tests.edge.hostile import status

FIRST_ROUNDS, MORE_ROUNDS = 10, 10
TIMED_ROUNDS, TIMES = 5, 4
QUICK = ("random-model", "slow-peer")


@final
@dataclass
class Outcome:
    """What became of a fleet."""

    rates: list[float]  # periods learned a second, several times
    first: float
    after: float
    score: float
    new_users: float
    home_share: float = 0.0


def observe(folder: Path, attack: str | None, rounds: int) -> Outcome:
    """Run a fleet, time its learning, and let the attacker leave."""
    with zoo(folder, attack) as fleet:
        fleet.teach(FIRST_ROUNDS)
        fleet.teach(rounds)
        rates = [TIMED_ROUNDS / fleet.teach(TIMED_ROUNDS, at_once=True) for _ in range(TIMES)]
        shares = fleet.shares().values()
        found = Outcome(
            rates,
            max(max(some[:FIRST_ROUNDS]) for some in shares),
            max(max(some[FIRST_ROUNDS:]) for some in shares),
            fleet.score(),
            fleet.new_users(),
        )
        if attack is not None:
            found.home_share = _home_share_after(fleet)
    return found


def _home_share_after(fleet: Zoo) -> float:
    """The largest share of a home model, 100 batches after the attacker has left."""
    fleet.remove_attacker()
    fleet.teach(100 // EVERY)
    return max(status(edge).home_share for edge in fleet.honest)


def main() -> None:
    """Run every attack, each with its control in turn."""
    options = arguments(__doc__)
    names = QUICK if options.quick else (*ATTACKS, *TRANSPORT)
    rounds = 2 if options.quick else MORE_ROUNDS
    rows, figures = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            control = observe(Path(folder) / name / "control", None, rounds)
            found = observe(Path(folder) / name / "attacked", name, rounds)
            ratio = statistics.median(found.rates) / statistics.median(control.rates)
            off = found.new_users - control.new_users
            figures[name] = {
                "throughput": ratio,
                "share_first": found.first,
                "share_after": found.after,
                "home_share": found.home_share,
                "new_users_off": off,
                "score": found.score,
                "score_control": control.score,
            }
            numbers = (found.first, found.after, found.home_share)
            scores = f"{found.score:.3f}", f"{control.score:.3f}"
            rows.append([name, f"{ratio:.2f}", *(f"{x:.3f}" for x in numbers), f"{off:+.3f}", *scores])
    columns = ["attack", "throughput", "share, 10 rounds", "share, then", "home share after", "new users", "score"]
    report("Attacks on real edges", [*columns, "score without"], rows, figures, options.json)


if __name__ == "__main__":
    main()
