"""What is said of a model's scores."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from outland.estimators.judging import Judgement, Verdict, _groups, _of_some_width, judge, promised
from outland.estimators.words import kept_word

from outland.estimators.inputs import read_inputs
from outland.graphs import Splits
from tests.estimators.cases import bbbp


def test_probabilities_are_held_against_the_truth(fitted):
    smiles, labels = bbbp()
    answers = fitted._answers(smiles)
    found = promised(fitted.model_, answers, np.array(labels, dtype=float))
    assert found.said == pytest.approx(fitted.predict_proba(smiles)[:, 1].mean())
    assert found.true == pytest.approx(np.mean(labels))
    assert found.right == pytest.approx(fitted.score(smiles, labels))


def test_probabilities_that_break_their_word_are_called_a_ranking():
    held = {"said": 0.86, "true": 0.53, "right": 0.6}
    told = kept_word({"held_out": held, "shift": "scaffold"}, ("0", "1"))
    assert told == (
        "On the held-out rows it said 86% on average where 53% are '1', and called 60% right: read its probabilities "
        "as a ranking on new scaffolds."
    )
    told = kept_word({"held_out": {**held, "said": 0.6}, "shift": "scaffold"}, ("0", "1"))
    assert told == "On the held-out rows it said 60% on average where 53% are '1', and called 60% right."
    told = kept_word({"held_out": {"said": 0.9, "true": 0.4, "right": 0.4}}, ("a", "b", "c"))
    assert told.startswith(
        "On the held-out rows it was 90% sure on average of the class it called, and called 40% right:"
    )
    assert kept_word({"held_out": {"far": 0.1}}, ("0", "1")) == ""


def test_few_rows_judge_nothing():
    def scant(rows, rare):
        return Verdict("test", "rocauc", rows, rows, (Judgement(1.0),), None, rare).scant

    assert scant(3, 1) == "too few to judge (3 rows)"
    assert scant(400, 9) == "too few to judge (9 rows of one class)"
    assert scant(400, 1) == "too few to judge (1 row of one class)"
    assert scant(20, 10) == ""
    assert scant(19, None) == "too few to judge (19 rows)"
    assert scant(20, None) == ""


def test_a_perfect_score_has_no_interval():
    assert _of_some_width(Judgement(1.0, 1.0, 1.0)) == Judgement(1.0)
    assert _of_some_width(Judgement(1.0, 0.99, 1.0)) == Judgement(1.0, 0.99, 1.0)


def test_few_scaffolds_give_no_interval(fitted):
    smiles, labels = bbbp()
    graphs = read_inputs(smiles).graphs

    def judged(groups):
        extra = {"scaffold": torch.arange(len(smiles)) % groups}
        own = replace(graphs, y=torch.tensor(labels).float()[:, None], extra=extra).select(rings)
        return judge([fitted.model_, fitted.model_], Splits(own, {"test": torch.arange(len(own))}, None), "test")

    closed = re.compile(r"\d").search  # digits outside of brackets close rings
    rings = torch.tensor([place for place, one in enumerate(smiles) if closed(re.sub(r"\[.*?\]", "", one))])
    assert len(rings) == 284
    few, enough = judged(9), judged(10)
    assert (few.groups, enough.groups) == (9, 10)
    assert few.models[0] == Judgement(enough.models[0].value)
    assert few.difference == Judgement(0.0)
    assert enough.models[0].low < enough.models[0].high


def test_molecules_without_rings_are_single_ones():
    smiles = ["CCO", "CCN.Cl", "c1ccccc1O", "c1ccccc1.Cl.Cl.Cl", "C", "C1CC1"]
    inputs = read_inputs(smiles, scaffold=True)
    graphs = replace(inputs.graphs, extra={"scaffold": inputs.groups["scaffold"]})
    assert graphs.extra["scaffold"].tolist() == [0, 0, 1, 1, 0, 2]
    assert _groups(graphs).tolist() == [-1, -2, 1, 1, -5, 2]
    assert len(set(_groups(replace(graphs, extra={})).tolist())) == 6
