"""Which edge of a data set goes to which URL. Pure."""

from collections.abc import Sequence

from alphaedge.errors import InvalidValue, check_choice


def assign(names: Sequence[str], urls: Sequence[str], mapped: Sequence[str]) -> dict[str, str]:
    """Return the URL for each edge of the data that has one, by name and in the order of the data.

    mapped: EDGE=URL pairs, which come first. The other URLs go to the other edges in order.

    >>> assign(["a", "b", "c"], ["http://x", "http://y"], ["c=http://x"])
    {'a': 'http://y', 'c': 'http://x'}
    """
    assigned: dict[str, str] = {}
    for pair in mapped:
        edge, _, url = pair.partition("=http")  # the name of an edge may contain = too
        if not edge or not url:
            raise InvalidValue("map", pair, "EDGE=URL, such as berlin=http://127.0.0.1:8080")
        check_choice("map", edge, names)
        if edge in assigned:
            raise InvalidValue("map", pair, f"each edge once; {edge} goes to {assigned[edge]} already")
        assigned[edge] = f"http{url}".rstrip("/")
    rest = [url.rstrip("/") for url in urls if url.rstrip("/") not in assigned.values()]
    free = [name for name in names if name not in assigned]
    if len(rest) > len(free):
        count = f"{len(rest) + len(assigned)} addresses"
        raise InvalidValue("url", count, f"at most one for each of the {len(names)} edges of the data")
    assigned |= dict(zip(free, rest, strict=False))
    if not assigned:
        raise InvalidValue("url", "none", "at least one address of an edge, such as http://127.0.0.1:8080")
    twice = [url for url in assigned.values() if list(assigned.values()).count(url) > 1]
    if twice:
        raise InvalidValue("url", twice[0], "each address once")
    return {name: assigned[name] for name in names if name in assigned}
