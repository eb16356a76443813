"""The figures of a study's page."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from outland.report.charts import PALETTE, Bar, Line, bar_chart, graph_chart, line_chart, rank_diagram
from outland.studies import Column, Row
from outland.studies.axes import OUR_OWN
from outland.studies.quantities import Quantity
from outland.studies.results import Results

_AIA, _REFERENCE = 0, 1  # their numbers in the palette, on every page


@dataclass(frozen=True)
class Figure:
    """SVG drawings under one heading; `kind` is one of `Study.figures`."""

    kind: str
    title: str
    caption: str
    drawings: list[str]
    legend: Sequence[tuple[int | None, str]] = ()  # colours and their names
    columns: int = 0  # of the grid they stand in; 0 leaves it to the page
    width: int = 150  # of a column, in pixels
    column_titles: Sequence[str] = ()


def figures(results: Results, pictures: Mapping[str, list[dict[str, Any]]]) -> list[Figure]:
    """The study's figures, as far as there is something to draw."""
    makers: dict[str, Callable[[Results], Figure | None]]
    makers = {"bars": bars, "curves": curves, "ranks": ranks, "learning": learning, "augmented": augmented}
    drawn = [masks(pictures) if kind == "masks" else makers[kind](results) for kind in results.study.figures]
    return [figure for figure in drawn if figure is not None and figure.drawings]


def row_colours(rows: Sequence[Row], reference: str) -> dict[str, int | None]:
    """A colour for every row: AIA and the reference always have theirs; where rows are many, the others share grey.

    All but methods of our own, which stand apart in tables, too.
    """
    fixed = {"AIA": _AIA, "AIA (released)": _AIA, reference: _REFERENCE}
    others = list(dict.fromkeys(row.label for row in rows if row.label not in fixed))
    if len(others) > PALETTE - 2:
        others = list(dict.fromkeys(row.label for row in rows if row.group == OUR_OWN))
    free = dict(zip(others, range(2, PALETTE), strict=False))
    return {row.name: fixed.get(row.label, free.get(row.label)) for row in rows}


def bars(results: Results) -> Figure:
    """A bar for every row, a chart for every quantity, column and group of rows, the reference dashed."""
    groups = dict.fromkeys(row.group for row in results.rows)
    drawings = []
    for quantity, column, group in product(results.study.quantities, results.columns, groups):
        drawings += _bars(results, [row for row in results.rows if row.group == group], column, quantity)
    caption = f"Whiskers are one standard deviation over {results.study.repeats}."
    if results.study.reference:
        caption += f" The dashed line is {results.study.reference}."
    return Figure("bars", "Side by side", caption, drawings)


def _bars(results: Results, rows: Sequence[Row], column: Column, quantity: Quantity) -> list[str]:
    colours = row_colours(results.rows, results.study.reference)
    entries = []
    for row in rows:
        summary, colour = results.summary(row, column, quantity), colours[row.name]
        if summary is not None:
            entries.append(Bar(row.label, summary.mean, summary.std, PALETTE - 1 if colour is None else colour))
    if not entries:
        return []
    title = " ".join(filter(None, (column.label, rows[0].group)))
    if len(results.study.quantities) > 1:
        title = f"{title}, {quantity.title}"
    return [bar_chart(title, entries, _reference_mean(results, rows[0], column, quantity), quantity.digits)]


def _reference_mean(results: Results, row: Row, column: Column, quantity: Quantity) -> float | None:
    reference = results.reference(row)
    summary = None if reference is None else results.summary(reference, column, quantity)
    return None if summary is None else summary.mean


def curves(results: Results) -> Figure:
    """A line over the values of each hyper-parameter, one column a chart, the reference dashed."""
    quantity, drawings = results.study.quantities[0], []
    for group in dict.fromkeys(row.group for row in results.rows if row.group):
        rows = [row for row in results.rows if row.group == group]
        for column in results.columns:
            summaries = [(float(x), results.summary(row, column, quantity)) for x, row in enumerate(rows)]
            points = [(x, summary.mean) for x, summary in summaries if summary is not None]
            if not points:
                continue
            std = [summary.std for _, summary in summaries if summary is not None]
            lines = [Line(f"AIA, {group}", points, _AIA, std=std)]
            mean = _reference_mean(results, rows[0], column, quantity)
            if mean is not None:
                ends = [(0.0, mean), (float(len(rows) - 1), mean)]
                lines.append(Line(results.study.reference, ends, _REFERENCE, dashed=True))
            drawings.append(line_chart(f"{column.label}, {group}", lines, group, [row.label for row in rows]))
    legend = [(_AIA, "AIA"), (_REFERENCE, f"{results.study.reference}, dashed")]
    caption = f"Test score over the values of a dial; whiskers are one standard deviation over {results.study.repeats}."
    return Figure("curves", "AIA's dials", caption, drawings, legend)


def ranks(results: Results) -> Figure | None:
    """Average ranks with their critical difference."""
    ranking = results.ranks(results.study.quantities[0])
    if ranking is None:
        return None
    caption = (
        f"Average rank over {ranking.columns} columns, 1 is best. Bars join methods whose ranks are not shown to "
        f"differ (Nemenyi, p < 0.05). Friedman's test of all ranking alike: p = {ranking.p:.2g}."
    )
    display = {row.name: results.study.display_name(row) for row in results.rows}
    names = [display[name] for name in ranking.rows]
    drawing = rank_diagram(names, ranking.ranks, ranking.critical, ranking.groups)
    return Figure("ranks", "Average ranks", caption, [drawing])


def learning(results: Results) -> Figure:
    """Scores on the validation and test parts, epoch by epoch, mean over runs."""
    drawings, reference = [], results.study.reference
    colours = row_colours(results.rows, reference)
    for column, (part, name) in product(results.columns, (("val", "validation"), ("test", "test"))):
        lines = [
            Line(row.name, _curve(results, row, column, part), colours[row.name], row.label == reference)
            for row in results.rows
        ]
        if any(line.points for line in lines):
            drawings.append(line_chart(f"{column.label}, {name}", lines, "epoch"))
    named = {row.label: colours[row.name] for row in results.rows if colours[row.name] is not None}
    legend: list[tuple[int | None, str]] = [(number, name) for name, number in named.items()]
    if len(named) < len({row.label for row in results.rows}):
        legend.append((None, "others (point at a line for its name)"))
    return Figure("learning", "Learning curves", "Score in %, mean over the runs of a cell.", drawings, legend, 4, 280)


def _curve(results: Results, row: Row, column: Column, part: str) -> list[tuple[float, float]]:
    records = results.records.get(f"{row.name}/{column.label}", {}).values()
    runs = [[epoch.get(part, {}).get(record.metric) for epoch in record.curves] for record in records]
    points = []
    for epoch in range(max(map(len, runs), default=0)):
        scores = [run[epoch] for run in runs if epoch < len(run) and run[epoch] is not None]
        if scores:
            points.append((float(epoch + 1), 100 * math.fsum(scores) / len(scores)))
    return points


def masks(pictures: Mapping[str, list[dict[str, Any]]]) -> Figure:
    """The truth and each method's stable mask side by side, a graph a line."""
    drawings = []
    for number in range(max(map(len, pictures.values()), default=0)):
        drawings += [graph_chart(rescaled(graphs[number]), name) for name, graphs in pictures.items()]
    caption = (
        "Dark nodes and broad, dark edges have a high weight, stretched from the lowest to the highest of each graph; "
        "where a method weighs edges alone, a node shows its heaviest. Test graphs, one of each class; first runs."
    )
    title = "Captured stable parts beside the truth"
    return Figure("masks", title, caption, drawings, columns=len(pictures), column_titles=list(pictures))


def rescaled(picture: Mapping[str, Any]) -> dict[str, Any]:
    """Weights rescaled to [0, 1] within a graph; where all nodes weigh alike, each has its heaviest edge's."""

    def rescale(weights: Sequence[float]) -> list[float]:
        low, high = min(weights, default=0.0), max(weights, default=0.0)
        return [(weight - low) / (high - low) for weight in weights] if high > low else list(weights)

    edge, node = rescale(picture["edge"]), rescale(picture["node"])
    if len(set(node)) == 1 and edge:
        node = [0.0] * len(node)
        for ends, weight in zip(picture["ends"], edge, strict=True):
            for end in ends:
                node[end] = max(node[end], weight)
    return {**picture, "node": node, "edge": edge}


def augmented(results: Results) -> Figure:
    """Augmented graphs from the first epoch to the last, the truth first."""
    drawings, titles = list[str](), list[str]()
    for row in results.rows:
        for column in results.columns:
            runs = results.measurements.get(f"{row.name}/{column.label}", {})
            pictures = next((runs[seed].pictures for seed in sorted(runs) if runs[seed].pictures), [])
            epochs = sorted({picture["epoch"] for picture in pictures})
            names = {epoch: f"epoch {epoch}" if epoch else "truth" for epoch in epochs}
            titles = titles or list(names.values())
            for picture in sorted(pictures, key=lambda picture: (picture["graph"], picture["epoch"])):
                drawings.append(graph_chart(picture, f"{row.name}, {names[picture['epoch']]}"))
    caption = "The merged mask on training graphs, from the first epoch to the last: dark and broad is what stays."
    title = "Augmented graphs over training"
    return Figure("augmented", title, caption, drawings, columns=len(titles), column_titles=titles)
