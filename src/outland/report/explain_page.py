"""A self-contained HTML page of a table's molecules, each with the atoms and bonds its prediction rests on."""

import time
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from outland.estimators.distance import FLAGS
from outland.estimators.explained import Explained
from outland.estimators.fragments import rank_pieces
from outland.estimators.model import FittedModel
from outland.estimators.seen import seen_words
from outland.report.explain_notes import columns_note, constant_weights, error_tolerance, shading_note
from outland.report.html import render_page
from outland.report.molecule_svg import draw_molecule, draw_piece
from outland.tables.labels import parse_number

_MAX_CELLS = 4  # of the row, beside a molecule


def explain_page(model: FittedModel, rows: Sequence[Explained], table: str, left_out: bool = False) -> str:
    """The page as text; what comes from the table is escaped.

    Args:
        model: that predicts.
        rows: of `explain_table`.
        table: its name.
        left_out: whether the table has more rows.
    """
    readable = [row for row in rows if row.answer]
    known = any(row.truth for row in rows)
    atoms, bonds = constant_weights(readable)
    source = model.about.get("source", {})
    return render_page(
        "explain.html",
        style=("page.css", "explain.css"),
        script=("page.js", "explain.js"),
        table=table,
        target=source.get("target", "the label"),
        model=model,
        made=time.strftime("%Y-%m-%d"),
        notes=[shading_note(model, atoms, bonds), columns_note(model, known), *_seen_note(rows)],
        any_seen=any(row.seen for row in rows),
        stable=model.method.has_masks,
        classes=[str(name) for name in model.classes],
        flags=FLAGS,
        known=known,
        rows=[_row(model, row, not atoms, not bonds) for row in rows],
        unreadable=len(rows) - len(readable),
        left_out=left_out,
        pieces=[
            {"smiles": piece.smiles, "drawing": Markup(draw_piece(piece.smiles)), "counts": piece}
            for piece in rank_pieces((row.smiles, row.atoms) for row in readable if not atoms)
        ],
    )


def _seen_note(rows: Sequence[Explained]) -> list[str]:
    note = seen_words(sum(row.seen for row in rows), len(rows))
    return [f"{note}. They are marked “seen” under their distance."] if note else []


def _row(model: FittedModel, row: Explained, atoms: bool, bonds: bool) -> dict[str, Any]:
    answer = row.answer
    weights = row.atoms if atoms else None, row.bonds if bonds else None
    value = answer.get("outland_probability", answer.get("outland_prediction", ""))
    return {
        "number": row.place,
        "smiles": row.smiles,
        "cells": _cells(row),
        "drawing": Markup(draw_molecule(row.smiles, *weights)) if answer else "",
        "value": value,
        "value_text": "" if not answer else f"{float(value):.2f}" if model.classes else round_text(value, 4),
        "predicted": answer.get("outland_class", ""),
        "distance": answer.get("outland_distance", ""),
        "distance_text": f"{float(answer['outland_distance']):.2f}" if answer else "",
        "flag": answer.get("outland_flag", ""),
        "seen": ("seen" if row.seen else "new") if answer else "",
        "truth": row.truth,
        "error": _error(model, row),
        "problem": row.problem,
    }


def _cells(row: Explained) -> list[tuple[str, str]]:
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


def _error(model: FittedModel, row: Explained) -> str:
    """`right` or `wrong`, empty without a label; a regression is right within `error_tolerance`."""
    if not (row.truth and row.answer):
        return ""
    if model.classes:
        return "right" if row.truth == row.answer["outland_class"] else "wrong"
    error = abs(float(row.truth) - float(row.answer["outland_prediction"]))
    return "right" if error <= error_tolerance(model)[0] else "wrong"
