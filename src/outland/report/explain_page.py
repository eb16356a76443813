"""A self-contained HTML page of molecules or graphs, each with the nodes and edges its prediction rests on."""

import time
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from outland.models import TrainedModel
from outland.models.explained_rows import ExplainedRow
from outland.models.fragments import rank_pieces
from outland.models.knn import FLAGS
from outland.report.charts import graph_chart
from outland.report.explain_notes import columns_note, constant_weights, error_tolerance, shading_note
from outland.report.html import render_page
from outland.report.molecule_svg import draw_molecule, draw_piece
from outland.report.summaries import training_rows_notes
from outland.tables.labels import parse_number

_MAX_CELLS = 4  # of the row, beside a molecule


def explain_page(
    model: TrainedModel, rows: Sequence[ExplainedRow], data: str, left_out: bool = False, target: str | None = None
) -> str:
    """The page as text, of the table or part called `data`; `left_out` says whether that has more rows."""
    readable = [row for row in rows if row.prediction]
    known = any(row.truth for row in rows)
    nodes, edges = constant_weights(readable)
    number = model.target_index(target)
    seen = sum(row.is_training for row in rows)
    notes = [shading_note(model, nodes, edges), columns_note(model, known, number)]
    notes += [f"{note} They are marked “seen” under their distance." for note in training_rows_notes(seen, len(rows))]
    molecules = [(row.smiles, row.node_weights) for row in readable if row.smiles and not nodes]
    return render_page(
        "explain.html",
        style=("page.css", "explain.css"),
        script=("page.js", "explain.js"),
        table=data,
        target=model.targets[number],
        noun="molecule" if model.kind == "molecules" else "graph",
        model=model,
        made=time.strftime("%Y-%m-%d"),
        notes=notes,
        any_seen=seen > 0,
        stable=model.method is not None and model.method.has_masks,
        classes=[str(name) for name in model.classes],
        flags=FLAGS,
        known=known,
        rows=[_row(model, row, number, not nodes, not edges) for row in rows],
        unreadable=len(rows) - len(readable),
        left_out=left_out,
        pieces=[
            {"smiles": piece.smiles, "drawing": Markup(draw_piece(piece.smiles)), "counts": piece}
            for piece in rank_pieces(molecules)
        ],
    )


def _row(model: TrainedModel, row: ExplainedRow, target: int, nodes: bool, edges: bool) -> dict[str, Any]:
    suffix = "" if len(model.targets) == 1 else f"_{model.targets[target]}"
    prediction = row.prediction
    value = prediction.get(f"outland_probability{suffix}", prediction.get(f"outland_prediction{suffix}", ""))
    distance = prediction.get("outland_distance", "")
    return {
        "number": row.row,
        "smiles": row.smiles,
        "cells": _cells(row),
        "drawing": Markup(_drawing(row, nodes, edges)) if prediction else "",
        "value": value,
        "value_text": "" if not prediction else f"{float(value):.2f}" if model.classes else round_text(value, 4),
        "predicted": prediction.get(f"outland_class{suffix}", ""),
        "distance": distance,
        "distance_text": f"{float(distance):.2f}" if distance else "",
        "flag": prediction.get("outland_flag", ""),
        "seen": ("seen" if row.is_training else "new") if prediction else "",
        "truth": row.truth,
        "error": _error(model, row, target, suffix),
        "problem": row.problem,
    }


def _drawing(row: ExplainedRow, nodes: bool, edges: bool) -> str:
    """A molecule or graph with its weights; nodes or edges whose weights are constant are not shaded."""
    if row.smiles:
        return draw_molecule(row.smiles, row.node_weights if nodes else None, row.edge_weights if edges else None)
    node = row.node_weights if nodes else (0.0,) * len(row.node_weights)
    edge = row.edge_weights if edges else (0.0,) * len(row.edge_weights)
    return graph_chart({"node": node, "edge": edge, "ends": row.edges}, f"graph {row.row}")


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
