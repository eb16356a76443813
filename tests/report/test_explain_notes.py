"""What the page of explained molecules says above them."""

import re

from outland.estimators import GraphClassifier
from outland.models.explained_rows import ExplainedRow, explain_table
from outland.report.explain_notes import constant_summary, constant_weights, constant_weights_note, row_notes
from outland.report.explain_page import explain_page
from tests.models.cases import SMALL, TABLE, bbbp


def trained(method):
    return GraphClassifier(method, epochs=1, backbone=SMALL).fit(*bbbp()).model_


def page(model, rows):
    """The page's text without its drawings, styles and scripts."""
    text = explain_page(model, rows, "t.csv")
    return re.sub(r"<(svg|style|script).*?</\1>", "", text, flags=re.S)


def test_saliency_is_not_called_stable():
    model = trained("erm")
    rows = explain_table(model, TABLE, "smiles", most=60)
    text = page(model, rows)
    assert "Substructures that most often matter" in text
    assert "stable" not in text
    assert "environment" not in text
    shares = [tuple(map(int, share)) for share in re.findall(r"(\d+) of (\d+) molecules</span>", text)]
    assert shares
    assert all(2 * part >= whole for part, whole in shares)


def test_a_mask_says_what_it_is_and_where_it_acts(monkeypatch):
    model = trained("aia")
    rows = explain_table(model, TABLE, "smiles", "p_np", most=60)
    text = page(model, rows)
    assert "Pale parts are environment. Stable is what the method takes to decide the label" in text
    assert "Each atom stands for its neighbourhood: aia weighs atoms after 2 layers" in text
    monkeypatch.setattr(model.method, "mask_depth", 0)
    assert "Each atom stands" not in page(model, rows)
    far = model.distance.far / model.distance.unit
    assert f"one in a hundred above {far:.2f}, which is called far" in text
    (row,) = [row for row in rows if row.row == 1]
    assert f">{float(row.prediction['outland_probability']):.2f}</td>" in text


def test_a_constant_mask_is_called_so(fitted):
    rows = [
        ExplainedRow(1, {}, "CCO", {}, (0.9, 0.2, 0.6), (0.48, 0.52)),
        ExplainedRow(2, {}, "CC", {}, (0.1, 0.9), (0.5,), is_training=True),
    ]
    assert constant_weights(rows) == ("", "0.500 ± 0.016")
    assert constant_summary([0.4, 0.6]) == constant_summary([]) == ""
    assert constant_weights_note("", "0.500 ± 0.016").endswith(
        "bonds apart (0.500 ± 0.016 over all of them): only atoms are shaded."
    )
    assert "only bonds" in constant_weights_note("1.000 ± 0.000", "")
    assert "nothing is shaded" in constant_weights_note("1.000 ± 0.000", "0.5 ± 0.0")
    assert constant_weights_note("", "0.5 ± 0.0", ("nodes", "edges")) == (
        "The weights hardly tell edges apart (0.5 ± 0.0 over all of them): only nodes are shaded."
    )
    assert row_notes(fitted.model_, rows) == [
        "The weights hardly tell bonds apart (0.500 ± 0.016 over all of them): only atoms are shaded.",
        "1 of these 2 rows was in the model's training (or chose its epoch): its errors here flatter it.",
    ]
