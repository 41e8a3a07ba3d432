"""What happens during a demonstration: one edge turns hostile, one goes dark and comes back, one link is cut. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, final

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.float32]
HOSTILE, DARK, BACK, CUT = 0.35, 0.5, 0.6, 0.75  # shares of the run
LEAST: Final = 4  # edges that a story needs
Kind = Literal["hostile", "kill", "restart", "cut"]


@final
@dataclass(frozen=True)
class Scene:
    """Something that is done to an edge at a moment, a share of the run. peer: the other end of a link."""

    at: float
    kind: Kind
    edge: str
    peer: str = ""

    @property
    def text(self) -> str:
        """In words."""
        return {
            "hostile": f"{self.edge} turns hostile: from now on it learns from flipped outcomes",
            "kill": f"{self.edge} goes dark: kill -9",
            "restart": f"{self.edge} is started again",
            "cut": f"a policy cuts the link between {self.edge} and {self.peer}",
        }[self.kind]


def story(names: Sequence[str], alike: Mapping[str, int]) -> list[Scene]:
    """The scenes, in order; none for a fleet that is too small. alike: the group of each edge, where groups are known.

    The hostile edge has a like one that would listen to it, the dark edge is another, and the link that is cut is one
    between likes.
    """
    if len(names) < LEAST:
        return []
    groups: dict[int, list[str]] = {}
    for name in names:
        groups.setdefault(alike.get(name, 0), []).append(name)
    order = [name for group in sorted(groups.values(), key=len, reverse=True) for name in group]
    friend, hostile, third = order[0], order[1], order[2]
    dark = order[-1]
    return [
        Scene(HOSTILE, "hostile", hostile),
        Scene(DARK, "kill", dark),
        Scene(BACK, "restart", dark),
        Scene(CUT, "cut", friend, third),
    ]


def taught(scenes: Sequence[Scene], counts: Mapping[str, int], spread: tuple[float, float]) -> Callable[..., Labels]:
    """What edges are told of their events: (edge, first event, labels) to labels.

    counts: events of each edge in the whole run. spread: smallest and largest label; a hostile edge hears each label's
    opposite within it.
    """
    hostile = {scene.edge: scene.at for scene in scenes if scene.kind == "hostile"}
    low, high = spread

    def told(edge: str, first: int, labels: Labels) -> Labels:
        turned = edge in hostile and first >= hostile[edge] * counts[edge]
        return (low + high - labels).astype(np.float32) if turned else labels

    return told
