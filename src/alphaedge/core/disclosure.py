"""Which ids an edge names to its peers: disclosure control by a minimum number of users.

An id that one person has used tells of that person. So an edge names an id, in requests and in answers, once at least
``min_users`` users stand behind it in what the edge has learned from. Until then its row and its tally stay at home,
and the edge does not ask peers for theirs. Ids of ``local`` fields are never named.

Users are counted by marks. Each row has ``MARKS`` of them, and user u sets mark u mod ``MARKS``. Two users may share a
mark, but no user sets two. So there are at least as many users as marks, and an id is named too late rather than too
early. A mark takes one byte, and no list of users is kept.

This is no differential privacy: of an id that is named, peers see exactly what was learned (``core.privacy``).
"""

from dataclasses import dataclass
from typing import Final, final

from torch import Tensor

from alphaedge.core.model import Model
from alphaedge.errors import check_choice, check_number

MARKS: Final = 64  # of each row
MOST_USERS: Final = 32  # half of the marks: beyond, most users would share one


@final
@dataclass(frozen=True, kw_only=True)
class Disclosure:
    """What must hold before an id is named.

    min_users: how many users must stand behind it; 1 names every id.
    user: the field with the ids of users; None counts each event as a user of its own.
    local: fields whose ids are never named, such as the users themselves.
    """

    min_users: int = 1
    user: str | None = None
    local: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_number("disclosure.min_users", self.min_users, low=1, high=MOST_USERS, whole=True)

    @property
    def counts_users(self) -> bool:
        """Whether users are counted at all."""
        return self.min_users > 1

    def local_tables(self, model: Model) -> frozenset[int]:
        """The id tables of which nothing leaves, by number; fields that share a table share its fate."""
        of = {model.fields[field]: t for t, table in enumerate(model.tables) for field in table.fields}
        for name in self.local:
            check_choice("disclosure.local", name, of)
        if self.user is not None:
            check_choice("disclosure.user", self.user, model.fields)
        return frozenset(of[name] for name in self.local)


def mark(marks: Tensor, edges: Tensor, rows: Tensor, users: Tensor) -> None:
    """Set the marks [n, R, MARKS] of the users [k, B] behind the rows [k, B, F] of edges [k], in place."""
    edges = edges.view(-1, 1, 1).expand_as(rows)
    marks[edges, rows, (users % MARKS).unsqueeze(2).expand_as(rows)] = True


def enough(marks: Tensor, min_users: int) -> Tensor:
    """Behind which rows at least so many users stand, by their marks [..., MARKS]."""
    return marks.sum(-1) >= min_users
