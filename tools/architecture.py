"""Draw the maps of the packages from the imports in the code: ``python -m tools.architecture`` writes docs/images/.

A box is a package or a module; an arrow says that one imports another. Rows are layers: a box is above everything that
it imports. Arrows that follow from others are left out (the transitive reduction), and so are the modules that no
package stands behind, such as errors and logs: everything uses them, and one box at the bottom names them.
"""

import html
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grimp

IMAGES: Final = Path(__file__).parent.parent / "docs" / "images"
MAPS: Final[Mapping[str, str]] = {"packages.svg": "alphaedge", "edge.svg": "alphaedge.edge"}
Graph = dict[str, set[str]]  # what each box imports
SWEEPS: Final = 24  # passes that put boxes near what they are linked to
BOX_HEIGHT, ROW_HEIGHT, GAP, MARGIN = 34, 84, 26, 20  # pixels
MIN_WIDTH: Final = 560  # pixels between the margins
LETTER, PADDING, BEND = 8.2, 26, 14  # pixels: width of a letter, of a box beside its text, of a passing arrow
STYLE: Final = """
  .page { fill: #fbfcfd; }
  .box { fill: #ffffff; stroke: #1f4e5f; stroke-width: 1.3; }
  .shared { fill: #eef3f5; stroke: #9fb4bd; stroke-width: 1; }
  .import { fill: none; stroke: #1f4e5f; stroke-opacity: 0.55; stroke-width: 1.2; }
  text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #18343f; text-anchor: middle; }
  .shared-text { font-size: 12px; fill: #46606b; }
"""


def read_imports(root: str) -> tuple[Graph, list[str]]:
    """What the packages and modules directly below ``root`` import of each other, and the modules that all share.

    A module is shared if it and all that it imports are modules, not packages.
    """
    graph = grimp.build_graph("alphaedge", cache_dir=None)
    children = sorted(graph.find_children(root))
    imports = {
        a: {b for b in children if a != b and graph.direct_import_exists(importer=a, imported=b, as_packages=True)}
        for a in children
    }
    shared = {a for a in children if not graph.find_children(a)}
    while leaving := {a for a in shared if not imports[a] <= shared}:
        shared -= leaving
    short = {child: child.rpartition(".")[2] for child in children}
    kept = {short[a]: {short[b] for b in found - shared} for a, found in imports.items() if a not in shared}
    kept.pop("__main__", None)
    return kept, sorted(short[a] for a in shared)


def reduce_edges(graph: Graph) -> Graph:
    """Leave out an arrow from a to c where others lead from a to c."""

    def reachable(a: str) -> set[str]:
        return {c for b in graph[a] for c in ({b} | reachable(b))}

    return {a: {c for c in below if not any(c in reachable(b) for b in below - {c})} for a, below in graph.items()}


def rank(graph: Graph) -> dict[str, int]:
    """The row of each box, 0 at the bottom: one above the highest that it imports. A cycle is an error."""
    rows: dict[str, int] = {}

    def row(a: str, above: tuple[str, ...]) -> int:
        if a in above:
            raise ValueError(f"imports go in a circle: {' -> '.join([*above[above.index(a) :], a])}")
        if a not in rows:
            rows[a] = 1 + max((row(b, (*above, a)) for b in graph[a]), default=-1)
        return rows[a]

    for a in sorted(graph):
        row(a, ())
    return rows


@dataclass(frozen=True)
class Layout:
    """Boxes and bends in rows, top first; a link goes from a row to the next. A bend lets a long arrow pass a row."""

    rows: list[list[str]]
    links: list[tuple[str, str]]
    paths: list[list[str]]  # of each arrow: the box it leaves, the bends, the box it reaches


def arrange(graph: Graph) -> Layout:
    """Put boxes into rows, and in each row into an order in which few arrows cross."""
    height = rank(graph)
    top = max(height.values())
    rows: list[list[str]] = [[] for _ in range(top + 1)]
    for a in sorted(graph):
        rows[top - height[a]].append(a)
    links, paths = [], []
    for a in sorted(graph):
        for b in sorted(graph[a]):
            bends = [f"{a}>{b}>{level}" for level in range(height[a] - 1, height[b], -1)]
            for level, bend in zip(range(height[a] - 1, height[b], -1), bends, strict=True):
                rows[top - level].append(bend)
            paths.append([a, *bends, b])
            links += list(zip(paths[-1], paths[-1][1:], strict=False))
    for sweep in range(SWEEPS):
        _sweep(rows, links, down=sweep % 2 == 0)
    return Layout(rows, links, paths)


def _sweep(rows: list[list[str]], links: Sequence[tuple[str, str]], *, down: bool) -> None:
    """Order each row by the mean place of what its boxes are linked to in the row before."""
    for row in range(1, len(rows)) if down else range(len(rows) - 2, -1, -1):
        before = rows[row - 1] if down else rows[row + 1]
        place = {name: at / max(1, len(before) - 1) for at, name in enumerate(before)}
        pairs = links if down else [(b, a) for a, b in links]
        means = {}
        for at, name in enumerate(rows[row]):
            near = [place[a] for a, b in pairs if b == name and a in place]
            means[name] = (sum(near) / len(near) if near else at / max(1, len(rows[row]) - 1), at)
        rows[row].sort(key=lambda name: means[name])


def draw(graph: Graph, shared: Sequence[str], title: str) -> str:
    """The map as SVG."""
    layout = arrange(reduce_edges(graph))
    widths = [[_width(name) for name in row] for row in layout.rows]
    total = max(sum(row) + GAP * (len(row) - 1) for row in widths)
    total = max(total, LETTER * 0.9 * len("shared: " + ", ".join(shared)) + PADDING, MIN_WIDTH)
    width, height = round(total + 2 * MARGIN), len(layout.rows) * ROW_HEIGHT + BOX_HEIGHT + 2 * MARGIN
    centre: dict[str, tuple[float, float]] = {}
    for row, (names, sizes) in enumerate(zip(layout.rows, widths, strict=True)):
        free = (total - sum(sizes)) / (len(names) + 1)  # the same space between all boxes of a row
        x = MARGIN + free
        for name, size in zip(names, sizes, strict=True):
            centre[name] = (round(x + size / 2, 1), MARGIN + row * ROW_HEIGHT + BOX_HEIGHT / 2)
            x += size + free
    label = html.escape(f"Imports between the parts of {title}")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
        f"<title>{label}</title>",
        f"<style>{STYLE}</style>",
        '<marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="6" markerHeight="6" orient="auto">'
        '<path d="M0 1 9 5 0 9z" fill="#1f4e5f" fill-opacity="0.7"/></marker>',
        f'<rect class="page" width="{width}" height="{height}" rx="8"/>',
    ]
    parts += [_arrow([centre[name] for name in path]) for path in layout.paths]
    parts += [_box(name, *centre[name]) for row in layout.rows for name in row if ">" not in name]
    parts += _shared_box(shared, width, height - MARGIN - BOX_HEIGHT)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _width(name: str) -> float:
    return BEND if ">" in name else len(name) * LETTER + PADDING


def _arrow(points: Sequence[tuple[float, float]]) -> str:
    """A curve that leaves a box at its bottom, passes the bends upright and reaches a box at its top."""
    half = BOX_HEIGHT / 2
    x, y = points[0]
    path = f"M{x} {y + half:g}"
    for place, (to_x, to_y) in enumerate(points[1:], start=1):
        end, start = to_y - half, points[place - 1][1] + half
        middle = (start + end) / 2
        path += f" C{x} {middle:g} {to_x} {middle:g} {to_x} {end:g}"
        if place < len(points) - 1:
            path += f" L{to_x} {to_y + half:g}"
        x = to_x
    return f'<path class="import" d="{path}" marker-end="url(#tip)"/>'


def _box(name: str, x: float, y: float) -> str:
    size = _width(name)
    return (
        f'<rect class="box" x="{x - size / 2:g}" y="{y - BOX_HEIGHT / 2:g}" width="{size:g}" height="{BOX_HEIGHT}" '
        f'rx="6"/><text x="{x}" y="{y + 5:g}">{html.escape(name)}</text>'
    )


def _shared_box(shared: Sequence[str], width: float, y: float) -> list[str]:
    text = html.escape("shared: " + ", ".join(shared))
    size = f'width="{width - 2 * MARGIN}" height="{BOX_HEIGHT}"'
    return [
        f'<rect class="shared" x="{MARGIN}" y="{y}" {size} rx="6"/>',
        f'<text class="shared-text" x="{width / 2:g}" y="{y + BOX_HEIGHT / 2 + 4:g}">{text}</text>',
    ]


def outdated_maps() -> dict[Path, str]:
    """The maps that are not what the imports say, each with what it should be."""
    maps = {IMAGES / name: draw(*read_imports(root), root) for name, root in MAPS.items()}
    return {p: svg for p, svg in maps.items() if not p.exists() or p.read_text(encoding="utf-8") != svg}


def main() -> None:
    """Write the maps."""
    for path, svg in outdated_maps().items():
        path.write_text(svg, encoding="utf-8")
        sys.stdout.write(f"wrote docs/images/{path.name}\n")


if __name__ == "__main__":
    main()
