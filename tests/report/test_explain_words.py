"""What the page of explained molecules says, and what it draws where a mask tells nothing."""

import re

import pytest

from outland.estimators import GraphClassifier, GraphRegressor
from outland.estimators.explained import Explained, explain_table
from outland.report.explain_page import explain_page, rounded, shortened
from outland.report.explain_words import flat, flat_parts, flat_words
from outland.report.molecule_svg import draw_molecule
from tests.conftest import SAMPLES
from tests.estimators.cases import SMALL, bbbp

TABLE = SAMPLES / "bbbp.csv"


def fitted(method):
    return GraphClassifier(method, epochs=1, backbone=SMALL).fit(*bbbp()).model_


def page(model, rows):
    """The page's text without its drawings, styles and scripts."""
    text = explain_page(model, rows, "t.csv")
    return re.sub(r"<(svg|style|script).*?</\1>", "", text, flags=re.S)


def test_saliency_is_not_called_stable():
    model = fitted("erm")
    rows = explain_table(model, TABLE, "smiles", most=60)
    told = page(model, rows)
    assert "Substructures that most often matter" in told
    assert "stable" not in told
    assert "environment" not in told
    shares = [tuple(map(int, one)) for one in re.findall(r"(\d+) of (\d+) molecules</span>", told)]
    assert shares
    assert all(2 * part >= whole for part, whole in shares)


def test_a_mask_says_what_it_is_and_where_it_acts(monkeypatch):
    model = fitted("aia")
    rows = explain_table(model, TABLE, "smiles", "p_np", most=60)
    told = page(model, rows)
    assert "Pale parts are environment. Stable is what the method takes to decide the label" in told
    assert "An atom stands for its neighbourhood: aia weighs atoms after 2 layers" in told
    monkeypatch.setattr(type(model.method), "mask_depth", 0)
    assert "An atom stands" not in page(model, rows)
    far = model.familiar.far / model.familiar.unit
    assert f"one in a hundred above {far:.2f}, which is called far" in told
    (row,) = [row for row in rows if row.place == 1]
    assert f">{float(row.answer['outland_probability']):.2f}</td>" in told


def test_a_mask_that_tells_nothing_apart_is_not_drawn():
    rows = [Explained(1, {}, "CCO", {}, (0.9, 0.2, 0.6), (0.48, 0.52)), Explained(2, {}, "CC", {}, (0.1, 0.9), (0.5,))]
    assert flat_parts(rows) == ("", "0.500 ± 0.016")
    assert flat([0.4, 0.6]) == flat([]) == ""
    assert flat_words("", "0.500 ± 0.016").endswith(
        "bonds apart (0.500 ± 0.016 over all of them): only atoms are shaded."
    )
    assert "only bonds" in flat_words("1.000 ± 0.000", "")
    assert "nothing is shaded" in flat_words("1.000 ± 0.000", "0.5 ± 0.0")
    drawing = draw_molecule("CCO", (0.9, 0.2, 0.6), None)
    assert (drawing.count("<circle"), drawing.count('class="shade"')) == (2, 0)
    assert drawing.count('class="pale"') >= 2  # both bonds end at the pale atom
    drawing = draw_molecule("CCO", None, (0.9, 0.2))
    assert (drawing.count("<circle"), drawing.count('class="shade"')) == (0, 1)
    assert "pale" not in draw_molecule("CCO", None, None)


@pytest.mark.parametrize(
    ("cell", "short"),
    [
        ("-2.5789999999999997", "-2.579"),
        ("12345678.123456", "12345678"),
        ("0.000012345678", "1.23457e-05"),
        ("1234567890123", "1234567890123"),
        ("CC(C)N.ClCCCCCC", "CC(C)N.ClCCCCCC"),
        ("180.16", "180.16"),
        ("x" * 81, "x" * 77 + "…"),
    ],
)
def test_long_tails_are_rounded_and_names_are_not(cell, short):
    assert shortened(cell) == short


def test_numbers_are_rounded_and_right_is_defined():
    assert [rounded(one, 4) for one in ("-2.57894", "12345.6", "0.0012345")] == ["-2.579", "12346", "0.001234"]
    smiles, labels = bbbp()
    model = GraphRegressor("erm", epochs=1, backbone=SMALL).fit(smiles, labels).model_
    rows = explain_table(model, TABLE, "smiles", "p_np", most=30)
    assert f"off by at most {model.scale[1]:.3g}, the spread of the labels in training." in page(model, rows)
    model.about["scores"] = [{"part": "held out", "value": 0.001, "metric": "rmse"}]
    told = page(model, rows)
    assert "off by at most 0.001, the model&#39;s usual error" in told
    assert told.count('data-error="wrong"') >= 28
