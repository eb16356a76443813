"""What the page of explained molecules says above them."""

import re
from dataclasses import replace

import pytest
import torch

from outland.models.calibration import Calibration
from outland.models.contributions import Faithfulness
from outland.models.expected_error import ExpectedError, FlagErrors
from outland.models.explained_rows import Explained, ExplainedRow, explain_table
from outland.models.summary import Assessment
from outland.report.explain_notes import (
    columns_note,
    constant_summary,
    constant_weights,
    constant_weights_note,
    faithfulness_sentence,
    row_notes,
)
from outland.report.explain_page import explain_page
from tests.models.cases import TABLE
from tests.report.cases import chance_score


def page(model, explained):
    """The page's text without its drawings, styles and scripts."""
    text = explain_page(model, explained, "t.csv")
    return re.sub(r"<(svg|style|script).*?</\1>", "", text, flags=re.S)


def test_contributions_say_towards_what_and_how_faithful(fitted):
    explained = explain_table(fitted.model_, TABLE, "smiles", most=60)
    text, lines = page(fitted.model_, explained), row_notes(fitted.model_, explained)
    assert "The contribution of an atom is how far the prediction falls, in log-odds" in text
    assert "away from <b>1</b>" in text
    assert "stable" not in text
    assert lines[0] == "red: atoms that push towards 1; blue: away from it"
    assert lines[1] == faithfulness_sentence(explained.faithfulness, "molecule", "atom", "log-odds")
    assert not any("--towards" in line for line in lines)
    several = row_notes(fitted.model_, replace(explained, towards="the class called"))
    assert several[2] == "substructures count for the class that each molecule is called; --towards CLASS is for one"
    assert lines[1] in text
    effects = [
        float(effect.replace("−", "-")) for effect in re.findall(r"<b>([+−][\d.e-]+)</b> in \d+ molecules", text)
    ]
    up = sum(effect > 0 for effect in effects)
    assert up
    assert all(effect > 0 for effect in effects[:up])
    assert all(effect < 0 for effect in effects[up:])


def test_columns_say_whether_probabilities_are_calibrated_and_may_be_a_guess(fitted):
    model = replace(fitted.model_, calibration=Calibration((1.5,), (0.25,)))
    assert "Probability is of “1”, calibrated on rows not trained on;" in columns_note(model, known=False)
    without = replace(model, calibration=Calibration.identity(model.task, "too few"))
    assert "Probability is of “1”, not calibrated;" in columns_note(without, known=False)
    poor = replace(model, assessment=Assessment(scores=[chance_score()]))
    assert "It may be no better than a guess" in columns_note(poor, known=False)


def test_a_mask_says_what_it_is_and_where_it_acts(fitted, monkeypatch):
    model = fitted.model_
    explained = explain_table(model, TABLE, "smiles", "p_np", most=60, show="mask")
    text = page(model, explained)
    assert "Pale parts are environment. Stable is what the method takes to decide the label" in text
    assert "Each atom stands for its neighbourhood: aia weighs atoms after 2 layers" in text
    monkeypatch.setattr(model.method, "mask_depth", 0)
    assert "Each atom stands" not in page(model, explained)
    far = model.distance.far / model.distance.unit
    assert f"one in a hundred above {far:.2f}, which is called far" in text
    (row,) = [row for row in explained.rows if row.row == 1]
    assert f">{float(row.prediction['outland_probability']):.2f}</td>" in text
    assert "shaded: the stable mask that aia has learned" in row_notes(model, explained)[0]


@pytest.mark.parametrize(("low", "verdict"), [(0.1, "Faithful"), (-0.1, "Not shown to be faithful")])
def test_only_what_beats_random_is_called_faithful(low, verdict):
    result = Faithfulness((0.5,) * 5, (0.2,) * 5, 0.3, low, 0.5, 80)
    sentence = faithfulness_sentence(result, "molecule", "atom", "log-odds")
    start = f"{verdict}: hiding the atoms that count most lowers a prediction by 0.3 ({low} to 0.5; log-odds) more"
    assert sentence.startswith(start)
    assert "80 molecules" in sentence


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
    assert row_notes(fitted.model_, Explained(rows, "mask"))[1:] == [
        "The weights hardly tell bonds apart (0.500 ± 0.016 over all of them): only atoms are shaded.",
        "1 of these 2 rows was in the model's training (or chose its epoch): its errors here flatter it.",
    ]


def test_the_expected_error_stands_beside_the_flag_where_flags_go_by_it(fitted):
    by_flag = (FlagErrors(600, 0.05), FlagErrors(250, 0.15), FlagErrors(150, 0.3))
    expected = ExpectedError(("uncertainty",), torch.zeros(1, 2), (0.0, 0.0, 0.0), 0.1, 0.2, by_flag, True)
    model = replace(fitted.model_, expected_error=expected)
    cells = {
        "outland_probability": "0.9",
        "outland_class": "1",
        "outland_expected_error": "0.1234",
        "outland_flag": "edge",
    }
    row = ExplainedRow(1, {"smiles": "CCO"}, "CCO", cells, (0.1, 0.2, 0.3))
    text = page(model, Explained([row], "contributions"))
    assert '<button type="button">expected error</button>' in text
    assert 'data-value="0.1234">0.123<' in text
    assert "Expected error is the probability that the class called is wrong" in text
    assert "called edge" not in text
    assert "Distance is how unusual a molecule is" in columns_note(fitted.model_, False)
