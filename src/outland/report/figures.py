"""The figures of a study's page."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import torch
from torch_geometric.data import Data

from outland.report.drawing import places
from outland.report.svg import PALETTE, Bar, Line, bar_chart, line_chart, rank_diagram
from outland.studies import Column, Row
from outland.studies.quantities import Quantity
from outland.studies.results import Results

_AIA, _REFERENCE = 0, 1  # places in the palette that always mean the same


@dataclass(frozen=True)
class Figure:
    """Drawings under one heading.

    Args:
        kind: what they are, as in `Study.figures`.
        title: over them.
        caption: under them.
        drawings: SVG.
        legend: colours and their names.
        across: how many stand in a line, in a grid; 0 leaves it to the page.
        width: of one of them in the grid, in pixels.
        heads: words over the columns of the grid.
    """

    kind: str
    title: str
    caption: str
    drawings: list[str]
    legend: Sequence[tuple[int | None, str]] = ()
    across: int = 0
    width: int = 150
    heads: Sequence[str] = ()


def figures(results: Results, pictures: Mapping[str, list[dict[str, Any]]]) -> list[Figure]:
    """What the study asks for, as far as there is something to draw."""
    makers = {
        "bars": bars,
        "curves": curves,
        "ranks": ranks,
        "learning": learning,
        "masks": lambda found: masks(pictures),
        "augmented": augmented,
    }
    drawn = [makers[kind](results) for kind in results.study.figures]
    return [figure for figure in drawn if figure is not None and figure.drawings]


def colours(rows: Sequence[Row], reference: str) -> dict[str, int | None]:
    """A colour for every row: AIA and the reference always have theirs; where rows are many, the others share grey."""
    labels = list(dict.fromkeys(row.label for row in rows))
    fixed = {"AIA": _AIA, reference: _REFERENCE}
    others = [label for label in labels if label not in fixed]
    free = dict(zip(others, range(2, PALETTE), strict=False)) if len(others) <= PALETTE - 2 else {}
    return {row.name: fixed.get(row.label, free.get(row.label)) for row in rows}


def bars(results: Results) -> Figure:
    """Every row of every column and quantity as a bar, the reference dashed."""
    colour = colours(results.rows, results.study.reference)
    drawings = []
    for quantity in results.study.quantities:
        for column in results.columns:
            for group in dict.fromkeys(row.group for row in results.rows):
                own = [row for row in results.rows if row.group == group]
                drawings += _bars(results, own, column, quantity, colour)
    words = "Whiskers are one standard deviation over " + results.study.repeats + "."
    if results.study.reference:
        words += f" The dashed line is {results.study.reference}."
    return Figure("bars", "Side by side", words, drawings)


def _bars(
    results: Results, rows: Sequence[Row], column: Column, quantity: Quantity, colour: Mapping[str, int | None]
) -> list[str]:
    found = [(row, results.summary(row, column, quantity)) for row in rows]
    made = [
        Bar(row.label, one.mean, one.std, PALETTE - 1 if (number := colour[row.name]) is None else number)
        for row, one in found
        if one is not None
    ]
    if not made:
        return []
    reference = results.reference(rows[0])
    base = None if reference is None else results.summary(reference, column, quantity)
    title = " ".join(filter(None, (column.label, rows[0].group)))
    if len(results.study.quantities) > 1:
        title = f"{title}, {quantity.title}"
    return [bar_chart(title, made, None if base is None else base.mean, quantity.digits)]


def curves(results: Results) -> Figure:
    """A line over the values of each dial, one column a chart, the reference dashed."""
    quantity, drawings = results.study.quantities[0], []
    for group in dict.fromkeys(row.group for row in results.rows if row.group):
        dial = [row for row in results.rows if row.group == group]
        for column in results.columns:
            found = [(place, results.summary(row, column, quantity)) for place, row in enumerate(dial)]
            points = [(float(place), one.mean) for place, one in found if one is not None]
            if not points:
                continue
            spread = [one.std for _, one in found if one is not None]
            lines = [Line(f"AIA, {group}", points, _AIA, spread=spread)]
            reference = results.reference(dial[0])
            base = None if reference is None else results.summary(reference, column, quantity)
            if base is not None:
                ends = [(0.0, base.mean), (float(len(dial) - 1), base.mean)]
                lines.append(Line(results.study.reference, ends, _REFERENCE, dashed=True))
            drawings.append(line_chart(f"{column.label}, {group}", lines, group, [row.label for row in dial]))
    legend = [(_AIA, "AIA"), (_REFERENCE, f"{results.study.reference}, dashed")]
    words = f"Test score over the values of a dial; whiskers are one standard deviation over {results.study.repeats}."
    return Figure("curves", "AIA's dials", words, drawings, legend)


def ranks(results: Results) -> Figure | None:
    """Average ranks with their critical difference."""
    found = results.ranks(results.study.quantities[0])
    if found is None:
        return None
    words = (
        f"Average rank over {found.columns} columns, 1 is best. Bars join methods whose ranks are not shown to differ "
        f"(Nemenyi, p < 0.05). Friedman's test of all ranking alike: p = {found.p:.2g}."
    )
    drawing = rank_diagram(found.rows, found.ranks, found.critical, found.groups)
    return Figure("ranks", "Average ranks", words, [drawing])


def learning(results: Results) -> Figure:
    """Scores on the validation and test parts, epoch by epoch, mean over runs."""
    colour = colours(results.rows, results.study.reference)
    drawings = []
    for column in results.columns:
        for part in ("val", "test"):
            lines = []
            for row in results.rows:
                points = _curve(results, row, column, part)
                dashed = row.label == results.study.reference
                lines.append(Line(row.name, points, colour[row.name], dashed))
            if any(line.points for line in lines):
                word = {"val": "validation", "test": "test"}[part]
                drawings.append(line_chart(f"{column.label}, {word}", lines, "epoch"))
    named = {row.label: colour[row.name] for row in results.rows if colour[row.name] is not None}
    legend: list[tuple[int | None, str]] = [(number, name) for name, number in named.items()]
    if len(named) < len({row.label for row in results.rows}):
        legend.append((None, "others (point at a line for its name)"))
    return Figure("learning", "Learning curves", "Score in %, mean over the runs of a cell.", drawings, legend, 4, 280)


def _curve(results: Results, row: Row, column: Column, part: str) -> list[tuple[float, float]]:
    records = list(results.records.get(f"{row.name}/{column.label}", {}).values())
    rows = [[epoch.get(part, {}).get(record.metric) for epoch in record.curves] for record in records]
    points = []
    for epoch in range(max(map(len, rows), default=0)):
        known = [scores[epoch] for scores in rows if epoch < len(scores) and scores[epoch] is not None]
        if known:
            points.append((float(epoch + 1), 100 * math.fsum(known) / len(known)))
    return points


def masks(pictures: Mapping[str, list[dict[str, Any]]]) -> Figure:
    """The truth and what each method's stable mask captures of it, side by side, a graph a line."""
    drawings = []
    for graph in range(max(map(len, pictures.values()), default=0)):
        drawings += [graph_svg(stretched(found[graph]), name) for name, found in pictures.items()]
    words = (
        "Dark nodes and broad, dark edges have a high weight, stretched from the lowest to the highest of each graph; "
        "where a method weighs edges alone, a node shows its heaviest. Test graphs, one of each class; first runs."
    )
    title = "Captured stable parts beside the truth"
    return Figure("masks", title, words, drawings, across=len(pictures), heads=list(pictures))


def stretched(picture: Mapping[str, Any]) -> dict[str, Any]:
    """Weights from the lowest of a graph, which becomes 0, to the highest, which becomes 1; equal ones stay."""

    def stretch(weights: Sequence[float]) -> list[float]:
        low, high = min(weights, default=0.0), max(weights, default=0.0)
        return [(weight - low) / (high - low) for weight in weights] if high > low else list(weights)

    edge, node = stretch(picture["edge"]), stretch(picture["node"])
    if len(set(node)) == 1 and edge:
        node = [0.0] * len(node)
        for ends, weight in zip(picture["ends"], edge, strict=True):
            for end in ends:
                node[end] = max(node[end], weight)
    return {**picture, "node": node, "edge": edge}


def augmented(results: Results) -> Figure:
    """Augmented graphs from the first epoch to the last, the truth first."""
    drawings: list[str] = []
    heads: list[str] = []
    for row in results.rows:
        for column in results.columns:
            found = results.measurements.get(f"{row.name}/{column.label}", {})
            pictures = next((one.pictures for _, one in sorted(found.items()) if one.pictures), [])
            names = {one["epoch"]: f"epoch {one['epoch']}" if one["epoch"] else "truth" for one in pictures}
            heads = heads or [names[epoch] for epoch in sorted(names)]
            for picture in sorted(pictures, key=lambda one: (one["graph"], one["epoch"])):
                drawings.append(graph_svg(picture, f"{row.name}, {names[picture['epoch']]}"))
    words = "The merged mask on training graphs, from the first epoch to the last: dark and broad is what stays."
    title = "Augmented graphs over training"
    return Figure("augmented", title, words, drawings, across=len(heads), heads=heads)


def graph_svg(picture: Mapping[str, Any], title: str) -> str:
    """A graph with a weight in [0, 1] on every node and edge."""
    ends = torch.tensor(picture["ends"], dtype=torch.long).reshape(-1, 2)
    graph = Data(x=torch.zeros(len(picture["node"]), 1), edge_index=ends.T)
    place = places(graph)
    spots = torch.tensor([[float(place[i][0]), float(place[i][1])] for i in range(len(picture["node"]))])
    low, high = spots.min(0).values, spots.max(0).values
    scale = 132 / float((high - low).max().clamp(min=1e-9))
    spots = 80 + (spots - (low + high) / 2) * scale
    marks = []
    for (u, v), weight in zip(picture["ends"], picture["edge"], strict=True):
        if u < v:
            (x1, y1), (x2, y2) = spots[u].tolist(), spots[v].tolist()
            marks.append(
                f'<line class="edge" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
                f'style="stroke-width:{1.2 + 4 * weight:.1f};stroke-opacity:{0.3 + 0.7 * weight:.2f}"/>'
            )
    for (x, y), weight in zip(spots.tolist(), picture["node"], strict=True):
        marks.append(f'<circle class="node" cx="{x:.1f}" cy="{y:.1f}" r="6" style="fill-opacity:{weight:.2f}"/>')
    size = 'viewBox="0 0 160 160" width="150" height="150"'
    words = f"<title>{escape(title)}</title>"
    return f'<svg class="chart graph" role="img" aria-label="{escape(title)}" {size}>{words}{"".join(marks)}</svg>'
