"""A self-contained HTML page of molecules or graphs, each with what its prediction rests on."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

from markupsafe import Markup

from outland.models import TrainedModel
from outland.models.contributions import SHARES
from outland.models.explained_rows import Explained, ExplainedRow
from outland.models.fragments import rank_pieces
from outland.models.knn import FLAGS
from outland.report.charts import Line, graph_chart, line_chart, signed_graph_chart
from outland.report.explain_notes import (
    columns_note,
    constant_weights,
    contribution_note,
    contribution_unit,
    error_tolerance,
    faithfulness_sentence,
    node_and_edge,
    shading_note,
)
from outland.report.html import render_page
from outland.report.molecule_svg import draw_contributions, draw_molecule, draw_piece
from outland.report.summaries import training_rows_notes
from outland.tables.labels import parse_number

_MAX_CELLS = 4  # of the row, beside a molecule


def explain_page(
    model: TrainedModel, explained: Explained, data: str, left_out: bool = False, target: str | None = None
) -> str:
    """The page as text, of the table or part called `data`; `left_out` says whether that has more rows."""
    rows = explained.rows
    readable = [row for row in rows if row.prediction]
    known = any(row.truth for row in rows)
    number = model.target_index(target)
    seen = sum(row.is_training for row in rows)
    if explained.show == "mask":
        notes, draw = _mask_view(model, readable)
        scale = 0.0
    else:
        notes, scale = [contribution_note(model, number)], colour_scale(readable)
        draw = partial(_contributions, scale=scale)
    notes.append(columns_note(model, known, number))
    notes += [
        f"{note} They are marked “seen” under their {measure(model)}." for note in training_rows_notes(seen, len(rows))
    ]
    return render_page(
        "explain.html",
        style=("page.css", "explain.css"),
        script=("page.js", "explain.js"),
        table=data,
        target=model.targets[number],
        noun=model.kind[:-1],
        node=node_and_edge(model)[0],
        model=model,
        made=time.strftime("%Y-%m-%d"),
        notes=notes,
        explained=explained,
        scale=f"{scale:.2g}",
        unit=contribution_unit(model, number),
        faithfulness=_faithfulness(model, explained, number),
        any_seen=seen > 0,
        classes=[str(name) for name in model.classes],
        flags=FLAGS,
        measure=measure(model),
        known=known,
        rows=[_row(model, row, number, draw) for row in rows],
        unreadable=len(rows) - len(readable),
        left_out=left_out,
        pieces=_pieces(explained, readable),
    )


def measure(model: TrainedModel) -> str:
    """What is shown with the flag of a row: the error to expect where flags go by it, else the distance."""
    return "distance" if model.expected_error is None else "expected error"


def colour_scale(rows: Sequence[ExplainedRow]) -> float:
    """The contribution of full colour on a page: half of the molecules reach it."""
    largest = [max(map(abs, row.nodes)) for row in rows if row.nodes]
    return (median(largest) if largest else 0.0) or 1.0


def _faithfulness(model: TrainedModel, explained: Explained, target: int) -> dict[str, Any] | None:
    """The sentence and the curves."""
    result = explained.faithfulness
    if result is None:
        return None
    node = node_and_edge(model)[0]
    curves = ((f"the {node}s that count most", result.top, 4), (f"random {node}s", result.random, 1))
    lines = [
        Line(name, [(0, 0), *((round(100 * share), fall) for share, fall in zip(SHARES, falls, strict=True))], colour)
        for name, falls, colour in curves
    ]
    return {
        "sentence": faithfulness_sentence(result, model.kind[:-1], node, contribution_unit(model, target)),
        "chart": Markup(line_chart("fall of the prediction", lines, f"% of {node}s hidden")),
        "lines": [(line.colour, line.name) for line in lines],
    }


def _pieces(explained: Explained, rows: Sequence[ExplainedRow]) -> list[tuple[str, list[dict[str, Any]]]]:
    """A heading and the pieces of each direction."""
    if explained.show == "mask":
        return []
    ranked = rank_pieces((row.smiles, row.nodes) for row in rows if row.smiles)
    headings = (f"Towards {explained.towards}", f"Away from {explained.towards}")
    return [
        (heading, [{"counts": piece, "drawing": Markup(draw_piece(piece.smiles))} for piece in found])
        for heading, found in zip(headings, ranked, strict=True)
        if found
    ]


def _row(model: TrainedModel, row: ExplainedRow, target: int, draw: Callable[[ExplainedRow], str]) -> dict[str, Any]:
    suffix = "" if len(model.targets) == 1 else f"_{model.targets[target]}"
    prediction = row.prediction
    value = prediction.get(f"outland_probability{suffix}", prediction.get(f"outland_prediction{suffix}", ""))
    unusual = prediction.get(f"outland_{measure(model).replace(' ', '_')}", "")
    return {
        "number": row.row,
        "smiles": row.smiles,
        "cells": _cells(row),
        "drawing": Markup(draw(row)) if prediction else "",
        "value": value,
        "value_text": "" if not prediction else f"{float(value):.2f}" if model.classes else round_text(value, 4),
        "predicted": prediction.get(f"outland_class{suffix}", ""),
        "unusual": unusual,
        "unusual_text": round_text(unusual, 3) if unusual else "",
        "flag": prediction.get("outland_flag", ""),
        "unseen": prediction.get("outland_unseen_elements", ""),
        "seen": ("seen" if row.is_training else "new") if prediction else "",
        "truth": row.truth,
        "error": _error(model, row, target, suffix),
        "problem": row.problem,
    }


def _contributions(row: ExplainedRow, scale: float) -> str:
    if row.smiles:
        return draw_contributions(row.smiles, row.nodes, scale)
    return signed_graph_chart(row.nodes, row.ends, scale, f"graph {row.row}")


def _mask_view(model: TrainedModel, rows: Sequence[ExplainedRow]) -> tuple[list[str], Callable[[ExplainedRow], str]]:
    """The note on the stable mask, and how a row is drawn; nodes or edges whose weights are constant are not shaded."""
    nodes, edges = constant_weights(rows)

    def draw(row: ExplainedRow) -> str:
        if row.smiles:
            return draw_molecule(row.smiles, None if nodes else row.nodes, None if edges else row.edges)
        node = (0.0,) * len(row.nodes) if nodes else row.nodes
        edge = (0.0,) * len(row.edges) if edges else row.edges
        return graph_chart({"node": node, "edge": edge, "ends": row.ends}, f"graph {row.row}")

    return [shading_note(model, nodes, edges)], draw


def _cells(row: ExplainedRow) -> list[tuple[str, str]]:
    """Names and texts of the first other cells of a row that are not empty, texts before numbers."""
    cells = [(name, cell) for name, cell in row.cells.items() if cell.strip() and cell != row.smiles]
    cells.sort(key=lambda cell: parse_number(cell[1]) is not None)
    return [(name, shorten(text)) for name, text in cells[:_MAX_CELLS]]


def shorten(cell: str) -> str:
    """A cell for a reader: long decimals are rounded, long text is cut."""
    if "." in cell and len(cell) > 8 and parse_number(cell) is not None:
        return round_text(cell, 6)
    return cell if len(cell) <= 80 else cell[:77] + "…"


def round_text(text: str, digits: int) -> str:
    """A number with this many significant digits, and no fewer than its integer part has."""
    value = float(parse_number(text) or 0.0)
    return f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:.0f}"


def _error(model: TrainedModel, row: ExplainedRow, target: int, suffix: str) -> str:
    """`right` or `wrong`, empty without a label; a regression is right within `error_tolerance`."""
    if not (row.truth and row.prediction):
        return ""
    if model.classes:
        return "right" if row.truth == row.prediction[f"outland_class{suffix}"] else "wrong"
    error = abs(float(row.truth) - float(row.prediction[f"outland_prediction{suffix}"]))
    return "right" if error <= error_tolerance(model, target)[0] else "wrong"
