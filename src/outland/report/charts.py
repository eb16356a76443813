"""Charts by matplotlib, as SVG that takes its colours from the page around it, in light and in dark."""

import io
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import torch

from outland.report.drawing import draw_coloured, draw_weighted
from outland.report.molecule_svg import signed_colour

PALETTE = 6  # colours --c0 to --c5 of the page
# Colours that matplotlib writes in place of the page's CSS variables, which `_to_svg` puts there.
_COLOURS = {
    name: f"#fe00{number:02x}"
    for number, name in enumerate(["ink", "quiet", "faint", "rule", "paper", *(f"c{i}" for i in range(PALETTE))])
}
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "outland",  # the same element ids every time
    "text.parse_math": False,
    "font.sans-serif": ["DejaVu Sans"],  # for matplotlib to measure; the page has its own
    "font.size": 11,
    "text.color": _COLOURS["ink"],
    "axes.titlesize": 13,
    "axes.titlelocation": "left",
    "axes.titlepad": 9,
    "axes.labelcolor": _COLOURS["quiet"],
    "axes.labelpad": 2,
    "axes.ymargin": 0.06,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "grid.color": _COLOURS["rule"],
    "grid.linewidth": 1,
    "xtick.color": _COLOURS["quiet"],
    "ytick.color": _COLOURS["quiet"],
    "xtick.major.size": 0,
    "xtick.major.pad": 6,
    "ytick.major.size": 0,
}
_TITLE = "title:"  # before the gid of an artist whose name is shown under the pointer


@dataclass(frozen=True)
class Line:
    """A line through points (x, y), with its name under the pointer and error bars of half-length `std`.

    Its colour is a number in the page's palette, or None for one of many lines, which is faint.
    """

    name: str
    points: Sequence[tuple[float, float]]
    colour: int | None = None
    dashed: bool = False
    std: Sequence[float] = ()


@dataclass(frozen=True)
class Bar:
    """A named bar with its standard deviation and its number in the page's palette."""

    name: str
    value: float
    std: float
    colour: int


def _style() -> Any:
    import matplotlib

    return matplotlib.rc_context(_STYLE)


def _new_axes(width: float, height: float, left: float, right: float, bottom: float, top: float) -> Any:
    """Axes on a new figure of this size with these margins, in pixels of the page."""
    from matplotlib.figure import Figure

    figure = Figure((width / 72, height / 72), frameon=False)  # matplotlib's SVG has 72 pixels an inch
    box = (left / width, bottom / height, (width - left - right) / width, (height - bottom - top) / height)
    return figure.add_axes(box, frameon=False)


def _to_svg(figure: Any, kind: str, title: str) -> str:
    """The figure as an `svg` element for a page; a gid that starts with `title:` becomes a `title` element."""
    stream = io.StringIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # the page's fonts draw it, not matplotlib's
        figure.savefig(stream, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = stream.getvalue()
    body = text[text.index("<g ") :]  # without the XML head, and a style sheet that would be the whole page's
    body = re.sub(rf'<g id="{_TITLE}([^"]*)"', r'<g class="named"><title>\1</title', body)
    body = re.sub(r'<g id="[^"]*"', "<g", body)
    for name, colour in _COLOURS.items():
        body = body.replace(colour, f"var(--{name})")
    width, height = (round(72 * inches) for inches in figure.get_size_inches())
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f'<svg class="chart {kind}" role="img" aria-label="{escape(title)}" {size}>{body}'


def line_chart(title: str, lines: Sequence[Line], xlabel: str, ticks: Sequence[str] = ()) -> str:
    """Lines over numbers; with `ticks`, over equally spaced points of these names instead."""
    with _style():
        axes = _new_axes(264, 200, left=34, right=14, bottom=34, top=26)
        axes.set(title=title, xlabel=xlabel)
        axes.margins(x=0)
        axes.locator_params(nbins=5)
        axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        for line in lines:
            if line.points:
                _draw_line(axes, line)
        if ticks:
            axes.set_xticks(range(len(ticks)), ticks)
        return _to_svg(axes.figure, "lines", title)


def _draw_line(axes: Any, line: Line) -> None:
    x, y = zip(*line.points, strict=True)
    many = line.colour is None
    look = {"color": _COLOURS["faint" if many else f"c{line.colour}"], "zorder": 2 if many else 3, "clip_on": False}
    dashes = (3, 2.4) if line.dashed else (None, None)
    name = f"{_TITLE}{line.name}: {y[-1]:.2f} at the end"
    axes.plot(x, y, linewidth=1 if many else 1.8, dashes=dashes, gid=name, **look)
    if line.std:
        axes.errorbar(x, y, line.std, fmt="none", elinewidth=1, alpha=0.55, **look)
    if line.std or len(x) == 1:
        for point in line.points:
            axes.plot(*point, "o", markersize=6, markeredgewidth=0, gid=f"{_TITLE}{line.name}: {point[1]:.2f}", **look)


def bar_chart(title: str, bars: Sequence[Bar], reference: float | None = None, digits: int = 2) -> str:
    """Bars from 0 with error bars, and a dashed line at the reference."""
    with _style():
        width, below = 60 + max(46 * len(bars), 7 * len(title)), 18 + 3 * max(len(bar.name) for bar in bars)
        axes = _new_axes(width, 194 + below, left=44, right=8, bottom=below, top=26)
        axes.set(title=title, xlim=(-0.5, len(bars) - 0.5))
        axes.locator_params(axis="y", nbins=5)
        for number, bar in enumerate(bars):
            colour = _COLOURS[f"c{bar.colour}"]
            (patch,) = axes.bar(number, bar.value, 0.64, yerr=bar.std, color=colour, alpha=0.85, ecolor=_COLOURS["ink"])
            patch.set_gid(f"{_TITLE}{bar.name}: {bar.value:.{digits}f} ± {bar.std:.{digits}f}")
        axes.set_xticks(range(len(bars)), [bar.name for bar in bars], rotation=28, ha="right", rotation_mode="anchor")
        if reference is not None:
            axes.axhline(reference, color=_COLOURS["c1"], linewidth=1.4, dashes=(3.6, 2.9))
        return _to_svg(axes.figure, "bars", title)


def rank_diagram(
    rows: Sequence[str], ranks: Sequence[float], critical: float, groups: Sequence[tuple[int, int]]
) -> str:
    """A critical-difference diagram: a bar joins methods whose average ranks are not shown to differ."""
    half, last = (len(rows) + 1) // 2, max(len(rows), 2)
    first_row = 14 + 7 * len(groups)
    height = first_row + 12 + 19 * half
    pixel = (last - 1) / 420  # along the axis of ranks; the other one is in pixels
    with _style():
        axes = _new_axes(720, height + 54, left=150, right=150, bottom=0, top=54)
        axes.set(xlim=(1, last), ylim=(height, 0), xticks=range(1, len(rows) + 1), yticks=[])
        axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=4)

        def draw(x: Sequence[float], y: Sequence[float], colour: str, **look: Any) -> None:
            axes.plot(x, y, color=_COLOURS[colour], clip_on=False, **look)

        draw([1, last], [0, 0], "ink", linewidth=1)
        draw([1, min(1 + critical, len(rows))], [-36, -36], "ink", linewidth=2)
        axes.text(1, -42, f"critical difference {critical:.2f}", color=_COLOURS["quiet"])
        for number, (row, rank) in enumerate(zip(rows, ranks, strict=True)):
            is_left = number < half
            y = first_row + 19 * (number if is_left else len(rows) - 1 - number)
            end, sign = (1, -1) if is_left else (last, 1)
            draw([rank, rank, end + sign * 12 * pixel], [0, y, y], "faint", linewidth=1, zorder=1)
            look = {"ha": "right" if is_left else "left", "va": "center", "fontsize": 12}
            axes.text(end + sign * 18 * pixel, y, f"{row}  {rank:.2f}", **look)
        for level, (best, worst) in enumerate(groups):
            ends, y = [ranks[best] - 3 * pixel, ranks[worst] + 3 * pixel], 9 + 7 * level
            draw(ends, [y, y], "c0", linewidth=4, alpha=0.75, solid_capstyle="round")
        return _to_svg(axes.figure, "ranks", "average ranks with the critical difference")


def graph_chart(picture: Mapping[str, Any], title: str) -> str:
    """A graph with a weight in [0, 1] on every node and edge, as `ends` `[E][2]`, `node` `[N]` and `edge` `[E]`."""
    from matplotlib.colors import to_rgba
    from torch_geometric.data import Data

    node, edge = torch.tensor(picture["node"]), torch.tensor(picture["edge"])
    ends = torch.tensor(picture["ends"], dtype=torch.long).reshape(-1, 2)
    graph = Data(x=torch.zeros(len(node), 1), edge_index=ends.T)
    with _style():
        axes = _new_axes(150, 150, left=0, right=0, bottom=0, top=0)
        colour, outline, background = (_COLOURS[name] for name in ("c0", "c5", "paper"))
        draw_weighted(axes, graph, node, edge, lambda weight: to_rgba(colour, weight), outline, background)
        return _to_svg(axes.figure, "graph", title)


def signed_graph_chart(node: Sequence[float], ends: Sequence[tuple[int, int]], scale: float, title: str) -> str:
    """A graph whose nodes are red where they contribute above 0 and blue below, full at `scale`."""
    from torch_geometric.data import Data

    graph = Data(x=torch.zeros(len(node), 1), edge_index=torch.tensor(ends, dtype=torch.long).reshape(-1, 2).T)
    with _style():
        axes = _new_axes(220, 220, left=0, right=0, bottom=0, top=0)
        draw_coloured(axes, graph, [signed_colour(value / scale) for value in node])
        return _to_svg(axes.figure, "graph", title)
