import doctest

import pytest

import outland.errors
import outland.graphs.batches
import outland.settings
from outland.errors import OutlandError
from outland.estimators import classifier, inputs
from outland.methods.aia import AIASettings
from outland.nn import BackboneSettings
from outland.settings import change, describe, parse
from outland.training import DataSettings, TrainSettings


@pytest.mark.parametrize(
    ("words", "value"),
    [({"gamma": "1e-3"}, 1e-3), ({"gamma": 2}, 2.0), ({"stable": "no"}, False), ({"front_layers": "1"}, 1)],
)
def test_text_becomes_the_right_type(words, value):
    (name,) = words
    changed = getattr(change(AIASettings(), words, "method"), name)
    assert changed == value
    assert type(changed) is type(value)


def test_optional_values():
    assert change(DataSettings(), {"limit": "12"}, "data").limit == 12
    assert change(DataSettings(limit=3), {"limit": "none"}, "data").limit is None


@pytest.mark.parametrize(
    ("value", "kind"), [("x", int), ("1.5", int), ("nan", float), ("maybe", bool), (True, int), ("inf", int)]
)
def test_misfits_are_refused(value, kind):
    with pytest.raises(OutlandError, match=r"train.thing takes"):
        parse(value, kind, "train.thing")


def test_every_setting_is_described():
    for settings in (AIASettings(), TrainSettings(), DataSettings(), BackboneSettings()):
        for name, _, meaning in describe(settings):
            assert len(meaning) > 8, name
    rows = {name: (value, meaning) for name, value, meaning in describe(AIASettings())}
    assert rows["lambda_s"] == ("0.5", "share of nodes and edges that the stable mask should keep.")
    assert rows["lr"][1].startswith("β")


def test_choices():
    with pytest.raises(OutlandError, match="Did you mean 'cosine'"):
        change(TrainSettings(), {"schedule": "cosin"}, "train")


def test_arguments_are_checked_by_name_and_by_position():
    with pytest.raises(OutlandError, match=r"unknown setting of data 'limitt'\. Did you mean 'limit'"):
        DataSettings(limitt=3)
    with pytest.raises(OutlandError, match=r"data\.limit must be at least 1, not 0"):
        DataSettings(123, 0)


@pytest.mark.parametrize("module", [outland.errors, outland.settings, outland.graphs.batches, classifier, inputs])
def test_examples_in_the_doc_strings(module):
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
