"""Which edge of a data set goes to which address. Pure."""

from collections.abc import Sequence

from alphaedge.errors import InvalidValue, check_choice


def assign(names: Sequence[str], urls: Sequence[str], mapped: Sequence[str]) -> dict[str, str]:
    """Addresses by the name of the data's edge, in the order of the data.

    mapped: EDGE=URL, which wins. Addresses that no such pair names go to the other edges in their order.

    >>> assign(["a", "b", "c"], ["http://x", "http://y"], ["c=http://x"])
    {'a': 'http://y', 'c': 'http://x'}
    """
    found: dict[str, str] = {}
    for pair in mapped:
        edge, _, url = pair.partition("=http")  # an edge's name may have a = too
        if not edge or not url:
            raise InvalidValue("map", pair, "EDGE=URL, such as berlin=http://127.0.0.1:8080")
        check_choice("map", edge, names)
        if edge in found:
            raise InvalidValue("map", pair, f"each edge once; {edge} goes to {found[edge]} already")
        found[edge] = f"http{url}".rstrip("/")
    rest = [url.rstrip("/") for url in urls if url.rstrip("/") not in found.values()]
    free = [name for name in names if name not in found]
    if len(rest) > len(free):
        what = f"{len(rest) + len(found)} addresses"
        raise InvalidValue("url", what, f"at most one for each of the {len(names)} edges of the data")
    found |= dict(zip(free, rest, strict=False))
    if not found:
        raise InvalidValue("url", "none", "at least one address of an edge, such as http://127.0.0.1:8080")
    twice = [url for url in found.values() if list(found.values()).count(url) > 1]
    if twice:
        raise InvalidValue("url", twice[0], "each address once")
    return {name: found[name] for name in names if name in found}
