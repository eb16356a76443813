"""One self-contained HTML page for a table: every molecule with what its prediction rests on."""

import time
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from outland.estimators.distance import FLAGS
from outland.estimators.explained import Explained
from outland.estimators.fragments import rank_pieces
from outland.estimators.model import FittedModel
from outland.estimators.seen import seen_words
from outland.report.explain_words import flat_parts, numbers, shading, usual_error
from outland.report.html import rendered
from outland.report.molecule_svg import draw_molecule, draw_piece
from outland.tables.labels import parse_number

_FACTS = 4  # other cells shown beside a molecule


def explain_page(model: FittedModel, rows: Sequence[Explained], table: str, left_out: bool = False) -> str:
    """The page, as text. Whatever comes from the table is escaped by the template."""
    readable = [row for row in rows if row.answer]
    known = any(row.truth for row in rows)
    atoms, bonds = flat_parts(readable)
    source = model.about.get("source", {})
    return rendered(
        "explain.html",
        style=("page.css", "explain.css"),
        script=("page.js", "explain.js"),
        table=table,
        target=source.get("target", "the label"),
        model=model,
        made=time.strftime("%Y-%m-%d"),
        notes=[shading(model, atoms, bonds), numbers(model, known), *_flattery(rows)],
        any_seen=any(row.seen for row in rows),
        stable=model.method.has_masks,
        classes=[str(one) for one in model.classes],
        flags=FLAGS,
        known=known,
        rows=[_row(model, row, not atoms, not bonds) for row in rows],
        unreadable=len(rows) - len(readable),
        left_out=left_out,
        pieces=[
            {"smiles": one.smiles, "drawing": Markup(draw_piece(one.smiles)), "of": one}
            for one in rank_pieces((row.smiles, row.atoms) for row in readable if not atoms)
        ],
    )


def _flattery(rows: Sequence[Explained]) -> list[str]:
    told = seen_words(sum(row.seen for row in rows), len(rows))
    return [f"{told}. They are marked “seen” under their distance."] if told else []


def _row(model: FittedModel, row: Explained, atoms: bool, bonds: bool) -> dict[str, Any]:
    answer = row.answer
    weights = row.atoms if atoms else None, row.bonds if bonds else None
    value = answer.get("outland_probability", answer.get("outland_prediction", ""))
    return {
        "place": row.place,
        "smiles": row.smiles,
        "facts": _facts(row),
        "drawing": Markup(draw_molecule(row.smiles, *weights)) if answer else "",
        "value": value,
        "number": "" if not answer else f"{float(value):.2f}" if model.classes else rounded(value, 4),
        "said": answer.get("outland_class", ""),
        "distance": answer.get("outland_distance", ""),
        "away": f"{float(answer['outland_distance']):.2f}" if answer else "",
        "flag": answer.get("outland_flag", ""),
        "seen": ("seen" if row.seen else "new") if answer else "",
        "truth": row.truth,
        "error": _error(model, row),
        "problem": row.problem,
    }


def _facts(row: Explained) -> list[tuple[str, str]]:
    """The first other cells of a row that say something: names, then numbers."""
    found = [(name, cell) for name, cell in row.cells.items() if cell.strip() and cell != row.smiles]
    found.sort(key=lambda one: parse_number(one[1]) is not None)
    return [(name, shortened(cell)) for name, cell in found[:_FACTS]]


def shortened(cell: str) -> str:
    """A cell as people read it: a number with a long tail is rounded, a long text is cut."""
    if "." in cell and len(cell) > 8 and parse_number(cell) is not None:
        return rounded(cell, 6)
    return cell if len(cell) <= 80 else cell[:77] + "…"


def rounded(text: str, digits: int) -> str:
    """A number with so many digits that count, and never fewer than stand before its point."""
    value = float(parse_number(text) or 0.0)
    return f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:.0f}"


def _error(model: FittedModel, row: Explained) -> str:
    """`right` or `wrong`; a number is wrong by more than the model usually is."""
    if not (row.truth and row.answer):
        return ""
    if model.classes:
        return "right" if row.truth == row.answer["outland_class"] else "wrong"
    off = abs(float(row.truth) - float(row.answer["outland_prediction"]))
    return "right" if off <= usual_error(model)[0] else "wrong"
