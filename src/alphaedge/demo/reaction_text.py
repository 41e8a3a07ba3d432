"""How honest edges reacted to one that turned hostile: sentences for the terminal, a table for the report. Pure."""

from collections.abc import Sequence
from typing import Final

from alphaedge.demo.reactions import THRESHOLDS, Reaction

MAX_LISTED_EDGES: Final = 6  # in a sentence
REACTION_COLUMNS: Final = (
    "edge",
    "share at the turn",
    "largest share after it",
    *(f"above {share:g}" for share in THRESHOLDS),
    "last share",
    "excluded",
)


def reaction_sentences(hostile: str, reactions: Sequence[Reaction]) -> list[str]:
    """Tell what became of the shares of an edge that turned hostile."""
    some = [one for one in reactions if one.hostile == hostile]
    if not some:
        return [f"Nobody learned from {hostile}, neither before it turned hostile nor afterwards."]
    listeners = sorted((one for one in some if one.before), key=lambda one: -one.before)
    before = _list([f"{one.edge} gave it {one.before:.2f}" for one in listeners]) or "nobody learned from it"
    sentences = [f"When {hostile} turned hostile, {before}.", _largest(some)]
    told = ""
    for number, share in enumerate(THRESHOLDS):
        each = _above(some, number)
        sentences.append(f"Shares above {share:g}: {'the same' if each and each == told else each or 'none'}.")
        told = each
    sentences.append(_excluded(some))
    still = [f"{one.edge} {one.last:.2f}" for one in some if one.last > min(THRESHOLDS)]
    sentences.append(f"In the last mix of the run it still had a share: {_list(still)}." if still else _last(some))
    return sentences


def reaction_rows(hostile: str, reactions: Sequence[Reaction]) -> list[list[str]]:
    """Return the table: a row for each edge that learned from the hostile one, or excluded it."""
    rows = []
    for one in (one for one in reactions if one.hostile == hostile):
        largest = f"{one.largest:.2f} in mix {one.largest_round}" if one.largest else "0"
        above = [f"{_mixes(t.rounds)}, {t.seconds:.0f} s" if t.rounds else "never" for t in one.above]
        excluded = [f"after mix {e.round}, {e.seconds:.0f} s: {e.reason}" for e in one.exclusions[:1]]
        excluded += [f"{len(one.exclusions)} times in all"] if len(one.exclusions) > 1 else []
        rows.append([one.edge, f"{one.before:.2f}", largest, *above, f"{one.last:.2f}", "; ".join(excluded) or "never"])
    return rows


def _largest(some: Sequence[Reaction]) -> str:
    top = max(some, key=lambda one: one.largest)
    if not top.largest:
        return "Nobody gave it a share in any later mix."
    return (
        f"The largest share that anybody gave it afterwards was {top.largest:.2f}: {top.edge}, in its mix "
        f"{top.largest_round} since the turn, {top.largest_seconds:.0f} s after it."
    )


def _above(some: Sequence[Reaction], threshold: int) -> str:
    """In how many mixes of whom the share was above a threshold, given by its place."""
    times = [(one.edge, one.above[threshold]) for one in some if one.above[threshold].rounds]
    times.sort(key=lambda pair: -pair[1].rounds)
    return _list(
        [f"{edge} in {_mixes(t.rounds)} ({t.seconds:.0f} s), the last of them mix {t.last_round}" for edge, t in times]
    )


def _last(some: Sequence[Reaction]) -> str:
    most = max(one.last for one in some)
    return f"In the last mix of the run nobody gave it {f'more than {most:.4f}' if most else 'a share'}."


def _excluded(some: Sequence[Reaction]) -> str:
    firsts = sorted(((one.edge, one.exclusions) for one in some if one.exclusions), key=lambda pair: pair[1][0].seconds)
    each = []
    for edge, exclusions in firsts:
        first, more = exclusions[0], len(exclusions) - 1
        again = f", and {more} more time{'s' if more > 1 else ''}" if more else ""
        each.append(f"{edge} after {_mixes(first.round)} ({first.seconds:.0f} s; {first.reason}){again}")
    return f"It was excluded by: {_list(each)}." if each else "Nobody excluded it."


def _mixes(count: int) -> str:
    return "1 mix" if count == 1 else f"{count} mixes"


def _list(parts: Sequence[str]) -> str:
    rest = len(parts) - MAX_LISTED_EDGES
    return "; ".join(parts[:MAX_LISTED_EDGES]) + (f"; and {rest} more" if rest > 0 else "")
