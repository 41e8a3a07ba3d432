"""How methods look in every figure, and the colours that figures share."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple


class MethodStyle(NamedTuple):
    """The look of a method. Line and marker tell methods apart where colour does not."""

    name: str
    colour: str
    marker: str
    line: str
    hollow: bool = False

    def markers(self) -> dict[str, Any]:
        """Return matplotlib's arguments for coloured, labelled markers."""
        fill = "white" if self.hollow else self.colour
        return {"color": self.colour, "marker": self.marker, "markerfacecolor": fill, "label": self.name}


# Okabe and Ito's palette, which colour-blind readers can tell apart. Two of the paper's variants are darker shades.
STYLES: Final[Mapping[str, MethodStyle]] = {
    "alphaedge": MethodStyle("AlphaEdge", "#D55E00", "o", "-"),
    "fedweight": MethodStyle("FedWeight", "#0072B2", "s", "--"),
    "uniweight": MethodStyle("UniWeight", "#56B4E9", "D", "-."),
    "randps": MethodStyle("RandPS", "#E69F00", "^", "-"),
    "nops": MethodStyle("NoPS", "#009E73", "v", "--"),
    "noagg": MethodStyle("NoAgg", "#000000", "X", ":"),
    "alphaedge-trusting": MethodStyle("AlphaEdge (trusting)", "#A04600", "*", ":"),
    "alphaedge-paper": MethodStyle("AlphaEdge (paper)", "#CC79A7", "o", "--", hollow=True),
    "randps-paper": MethodStyle("RandPS (paper)", "#8A5F00", "^", "--", hollow=True),
    "nops-paper": MethodStyle("NoPS (paper)", "#00543D", "v", ":", hollow=True),
    # Rivals from the literature: further shades, with markers of their own.
    "pens": MethodStyle("PENS", "#882255", "<", "-"),
    "fedfomo": MethodStyle("FedFomo", "#332288", ">", "-"),
    "l2c": MethodStyle("L2C", "#117733", "p", "-"),
    "dpsgd": MethodStyle("D-PSGD (ring)", "#999933", "h", "--"),
    "apfl": MethodStyle("APFL", "#AA4499", "d", "-."),
    "ditto": MethodStyle("Ditto", "#44AA99", "8", "-"),
    "median": MethodStyle("Median", "#661100", "s", ":", hollow=True),
    "trimmed-mean": MethodStyle("Trimmed mean", "#6699CC", "D", ":", hollow=True),
    "krum": MethodStyle("Krum", "#888888", "<", "--", hollow=True),
    "multi-krum": MethodStyle("Multi-Krum", "#555555", ">", "--", hollow=True),
}
PALETTE: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#F0E442", "#D55E00")
INK: Final = "#333333"
FAINT: Final = "#DDDDDD"
EMPTY: Final = "#F1F1F1"
NO_NUMBER: Final = "\N{EN DASH}"  # shown in tables where there is no number


def style_of(method: str) -> MethodStyle:
    """Return the style of a method. Unknown methods keep their name and are grey."""
    return STYLES.get(method, MethodStyle(method, "#777777", "P", "-"))


def in_order(methods: Iterable[str]) -> list[str]:
    """Sort methods in the order of ``STYLES``, then unknown ones by name."""
    return sorted(sorted(methods), key=lambda name: [*STYLES, name].index(name))
