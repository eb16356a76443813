"""Charts as plain SVG that takes its colours from the page around it, in light and in dark."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

PALETTE = 6  # colours --c0 to --c5 of the page


@dataclass(frozen=True)
class Line:
    """A named line of a chart; `colour` is a number of the page's palette, or None for one of many."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: int | None = None
    dashed: bool = False
    spread: Sequence[float] = ()


@dataclass(frozen=True)
class Bar:
    """A named bar with its spread."""

    name: str
    value: float
    spread: float
    colour: int


@dataclass
class Canvas:
    """Marks on a drawing of a given size, in units of pixels."""

    width: float
    height: float
    title: str
    marks: list[str] = field(default_factory=list)

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """A straight line."""
        self.marks.append(f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')

    def text(self, x: float, y: float, words: str, kind: str = "label", anchor: str = "start") -> None:
        """Words."""
        self.marks.append(f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>')

    def path(self, points: Sequence[tuple[float, float]], kind: str, style: str, words: str) -> None:
        """A line through points, which says its name under the pointer."""
        way = "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.marks.append(f'<path class="{kind}" style="{style}" d="{way}"><title>{escape(words)}</title></path>')

    def svg(self, kind: str) -> str:
        """The finished drawing."""
        size = f'viewBox="0 0 {self.width:.0f} {self.height:.0f}" width="{self.width:.0f}" height="{self.height:.0f}"'
        head = f'<svg class="chart {kind}" role="img" aria-label="{escape(self.title)}" {size}>'
        return f"{head}{''.join(self.marks)}</svg>"


def _ticks(low: float, high: float) -> list[float]:
    """A few round numbers between two values."""
    for step in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000):
        if (high - low) / step <= 5:
            break
    first = int(-(-low // step))
    return [step * place for place in range(first, int(high // step) + 1)]


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Bounds with a little air."""
    low, high = min(values), max(values)
    air = 0.06 * (high - low) or max(abs(high), 1.0) * 0.1
    return low - air, high + air


def line_chart(title: str, lines: Sequence[Line], across: str, marks: Sequence[str] = ()) -> str:
    """Lines over numbers; with `marks`, points stand at equal distances under these words instead."""
    lines = [line for line in lines if line.points]
    canvas = Canvas(264, 200, title)
    left, right, top, bottom = 34.0, 8.0, 26.0, 34.0
    values = [y for line in lines for _, y in line.points]
    values += [
        y + way * s for line in lines for (_, y), s in zip(line.points, line.spread, strict=False) for way in (-1, 1)
    ]
    low, high = _range(values)
    ends = [x for line in lines for x, _ in line.points]
    first, last = (min(ends), max(ends)) if max(ends) > min(ends) else (min(ends) - 0.5, max(ends) + 0.5)

    def at(x: float, y: float) -> tuple[float, float]:
        along = left + (x - first) / (last - first) * (canvas.width - left - right)
        return along, top + (high - y) / (high - low) * (canvas.height - top - bottom)

    canvas.text(left, 14, title, "heading")
    for tick in _ticks(low, high):
        y = at(first, tick)[1]
        canvas.line(left, y, canvas.width - right, y, "grid")
        canvas.text(left - 6, y + 3.5, f"{tick:g}", "tick", "end")
    for x, words in (
        enumerate(marks) if marks else [(tick, f"{tick:g}") for tick in _ticks(first, last) if tick == round(tick)]
    ):
        canvas.text(at(x, low)[0], canvas.height - bottom + 14, words, "tick", "middle")
    canvas.text((left + canvas.width - right) / 2, canvas.height - 4, across, "tick", "middle")
    for line in sorted(lines, key=lambda line: line.colour is not None):
        _draw_line(canvas, line, at)
    return canvas.svg("lines")


def _draw_line(canvas: Canvas, line: Line, at: object) -> None:
    assert callable(at)
    style = f"stroke:var(--c{line.colour})" if line.colour is not None else ""
    kind = "series" + (" dashed" if line.dashed else "") + ("" if line.colour is not None else " one-of-many")
    points = [at(x, y) for x, y in line.points]
    last = line.points[-1][1]
    for (x, y), spread in zip(line.points, line.spread, strict=False):
        canvas.marks.append(
            f'<line class="whisker" style="{style}" x1="{at(x, y)[0]:.1f}" x2="{at(x, y)[0]:.1f}" '
            f'y1="{at(x, y - spread)[1]:.1f}" y2="{at(x, y + spread)[1]:.1f}"/>'
        )
    canvas.path(points, kind, style, f"{line.name}: {last:.2f} at the end")
    if line.spread or len(points) == 1:
        fill = f"fill:var(--c{line.colour or 0})"
        for (x, y), (_, value) in zip(points, line.points, strict=True):
            words = f"<title>{escape(line.name)}: {value:.2f}</title>"
            canvas.marks.append(f'<circle style="{fill}" cx="{x:.1f}" cy="{y:.1f}" r="3">{words}</circle>')


def bar_chart(title: str, bars: Sequence[Bar], reference: float | None = None, digits: int = 2) -> str:
    """Bars from 0 with whiskers, and the reference dashed."""
    canvas = Canvas(max(60.0 + 46 * len(bars), 60.0 + 7 * len(title)), 240, title)
    left, top, bottom = 44.0, 26.0, 46.0
    values = [bar.value + way * bar.spread for bar in bars for way in (-1, 1)]
    low, high = _range([0.0, *values, *([] if reference is None else [reference])])
    low = 0.0 if min(values) >= 0 else low

    def up(value: float) -> float:
        return top + (high - value) / (high - low) * (canvas.height - top - bottom)

    canvas.text(left, 14, title, "heading")
    for tick in _ticks(low, high):
        canvas.line(left, up(tick), canvas.width - 8, up(tick), "grid")
        canvas.text(left - 6, up(tick) + 3.5, f"{tick:g}", "tick", "end")
    step = (canvas.width - left - 8) / len(bars)
    floor = up(0.0)
    for place, bar in enumerate(bars):
        x = left + step * (place + 0.5)
        y, words = up(bar.value), f"{bar.name}: {bar.value:.{digits}f} ± {bar.spread:.{digits}f}"
        canvas.marks.append(
            f'<rect class="bar" style="fill:var(--c{bar.colour})" x="{x - 0.32 * step:.1f}" y="{min(y, floor):.1f}" '
            f'width="{0.64 * step:.1f}" height="{abs(floor - y):.1f}"><title>{escape(words)}</title></rect>'
        )
        canvas.line(x, up(bar.value - bar.spread), x, up(bar.value + bar.spread), "error")
        canvas.marks.append(
            f'<text class="tick" text-anchor="end" transform="translate({x + 4:.1f},{canvas.height - bottom + 12:.1f}) '
            f'rotate(-28)">{escape(bar.name)}</text>'
        )
    if reference is not None:
        canvas.line(left, up(reference), canvas.width - 8, up(reference), "reference")
    return canvas.svg("bars")


def rank_diagram(
    rows: Sequence[str], ranks: Sequence[float], critical: float, groups: Sequence[tuple[int, int]]
) -> str:
    """A critical-difference diagram: a bar joins methods whose average ranks are not shown to differ."""
    half = (len(rows) + 1) // 2
    axis, step = 54.0, 19.0
    below = axis + 14 + 7 * len(groups)
    canvas = Canvas(720, below + 12 + step * half, "average ranks with the critical difference")
    left, right = 150.0, 570.0

    def at(rank: float) -> float:
        return left + (rank - 1) / max(len(rows) - 1, 1) * (right - left)

    canvas.line(left, axis, right, axis, "axis")
    for tick in range(1, len(rows) + 1):
        canvas.line(at(tick), axis - 4, at(tick), axis, "axis")
        canvas.text(at(tick), axis - 8, str(tick), "tick", "middle")
    reach = min(1 + critical, len(rows))
    canvas.line(at(1), 18, at(reach), 18, "critical")
    canvas.text(at(1), 12, f"critical difference {critical:.2f}", "tick")
    for place, (row, rank) in enumerate(zip(rows, ranks, strict=True)):
        best = place < half
        y = below + step * (place if best else len(rows) - 1 - place)
        side = left - 12 if best else right + 12
        canvas.marks.append(f'<path class="lead" d="M{at(rank):.1f},{axis}V{y:.1f}H{side:.1f}"/>')
        canvas.text(side + (-6 if best else 6), y + 4, f"{row}  {rank:.2f}", "label", "end" if best else "start")
    for level, (first, last) in enumerate(groups):
        y = axis + 9 + 7 * level
        canvas.line(at(ranks[first]) - 3, y, at(ranks[last]) + 3, y, "together")
    return canvas.svg("ranks")
