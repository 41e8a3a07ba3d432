"""Three honest edges beside one that attacks, against the same fleet with an honest fourth edge.

Per attack: how fast the honest edges learn, as a ratio of the two fleets; the largest share that any of them gave to
the attacker in the tenth round and after it; the home model's share 100 batches after the attacker has left; how far
the mean prediction for new users is off; and the honest edges' score. The fourth edge learns as much in either fleet,
so that both have the same cores to share. Both run side by side and are taught in turn.
"""

import statistics
import tempfile
from pathlib import Path

from alphaedge.attacks.catalog import ATTACKS
from benchmarks.common import arguments, report
from tests.edge.attacks.attacker import TRANSPORT
from tests.edge.attacks.zoo import EVERY, zoo
from tests.edge.hostile import status

FIRST_ROUNDS, MORE_ROUNDS = 10, 10
TIMED_ROUNDS, TIMES = 5, 5
QUICK = ("random-model", "slow-peer")


def observe(folder: Path, attack: str, rounds: int) -> dict[str, float]:
    """Teach both fleets in turn, so that whatever else the machine does slows both down, and let the attacker leave."""
    with zoo(folder / "control", None) as control, zoo(folder / "attacked", attack) as attacked:
        for _ in range(FIRST_ROUNDS + rounds):
            control.teach(1)
            attacked.teach(1)
        ratios = [
            control.teach(TIMED_ROUNDS, at_once=True) / attacked.teach(TIMED_ROUNDS, at_once=True) for _ in range(TIMES)
        ]
        shares = attacked.shares().values()
        found = {
            "throughput": statistics.median(ratios),
            "share_at_10": max(some[FIRST_ROUNDS - 1] for some in shares),
            "share_after": max(max(some[FIRST_ROUNDS:]) for some in shares),
            "new_users_off": attacked.new_users() - control.new_users(),
            "score": attacked.score(),
            "score_control": control.score(),
        }
        attacked.remove_attacker()
        attacked.teach(100 // EVERY)
        return found | {"home_share": max(status(edge).home_share for edge in attacked.honest)}


def main() -> None:
    """Run every attack, each beside its control."""
    options = arguments(__doc__, only={"help": "one attack only", "choices": [*ATTACKS, *TRANSPORT]})
    names = (options.only,) if options.only else QUICK if options.quick else (*ATTACKS, *TRANSPORT)
    rounds = 2 if options.quick else MORE_ROUNDS
    columns = {
        "throughput": "throughput",
        "share_at_10": "share, round 10",
        "share_after": "share, then",
        "home_share": "home share",
        "new_users_off": "new users",
        "score": "score",
        "score_control": "without",
    }
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            figures[name] = observe(Path(folder) / name, name, rounds)
    rows = [[name, *(f"{found[key]:.3f}" for key in columns)] for name, found in figures.items()]
    report("Attacks on real edges", ["attack", *columns.values()], rows, figures, options.json)


if __name__ == "__main__":
    main()
