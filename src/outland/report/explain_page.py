"""One self-contained HTML page for a table: every molecule with what its prediction rests on."""

import time
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from outland.datasets.labels import number
from outland.estimators.distance import FLAGS
from outland.estimators.explained import Explained, way
from outland.estimators.fragments import rank_pieces
from outland.estimators.model import FittedModel
from outland.estimators.words import kept_word
from outland.report.molecule_svg import draw_molecule, draw_piece

_FACTS = 4  # other cells shown beside a molecule


def explain_page(model: FittedModel, rows: Sequence[Explained], table: str, left_out: bool = False) -> str:
    """The page, as text. Whatever comes from the table is escaped by the template."""
    folder = files("outland.report")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(folder.joinpath("explain.html").read_text(encoding="utf-8"))

    def text(*names: str) -> Markup:
        return Markup("\n").join(Markup(folder.joinpath(name).read_text(encoding="utf-8")) for name in names)

    readable = [row for row in rows if row.answer]
    source = model.about.get("source", {})
    return template.render(
        style=text("page.css", "explain.css"),
        script=text("page.js", "explain.js"),
        table=table,
        target=source.get("target", "the label"),
        model=model,
        made=time.strftime("%Y-%m-%d"),
        way=way(model),
        yes=str(model.classes[1]) if len(model.classes) == 2 else "",
        classes=[str(one) for one in model.classes],
        kept_word=kept_word(model.about, model.classes),
        flags=FLAGS,
        known=any(row.truth for row in rows),
        rows=[_row(model, row) for row in rows],
        unreadable=len(rows) - len(readable),
        left_out=left_out,
        pieces=[
            {"smiles": one.smiles, "drawing": Markup(draw_piece(one.smiles)), "of": one}
            for one in rank_pieces((row.smiles, row.atoms) for row in readable)
        ],
    )


def _row(model: FittedModel, row: Explained) -> dict[str, Any]:
    answer = row.answer
    drawing = Markup(draw_molecule(row.smiles, row.atoms, row.bonds)) if answer else ""
    return {
        "place": row.place,
        "smiles": row.smiles,
        "facts": _facts(row),
        "drawing": drawing,
        "number": answer.get("outland_probability", answer.get("outland_prediction", "")),
        "said": answer.get("outland_class", ""),
        "distance": answer.get("outland_distance", ""),
        "flag": answer.get("outland_flag", ""),
        "truth": row.truth,
        "error": _error(model, row),
        "problem": row.problem,
    }


def _facts(row: Explained) -> list[tuple[str, str]]:
    """The first other cells of a row that say something: names, then numbers."""
    found = [(name, cell) for name, cell in row.cells.items() if cell.strip() and cell != row.smiles]
    found.sort(key=lambda one: number(one[1]) is not None)
    return [(name, cell if len(cell) <= 80 else cell[:77] + "…") for name, cell in found[:_FACTS]]


def _error(model: FittedModel, row: Explained) -> str:
    """`right` or `wrong`; a number is wrong by more than the model usually is."""
    if not (row.truth and row.answer):
        return ""
    if model.classes:
        return "right" if row.truth == row.answer["outland_class"] else "wrong"
    scores = [one["value"] for one in model.about.get("scores", []) if one["part"] == "held out"]
    usual = scores[0] if scores and scores[0] is not None else model.scale[1]
    return "right" if abs(float(row.truth) - float(row.answer["outland_prediction"])) <= usual else "wrong"
