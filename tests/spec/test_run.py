import json

import pytest

from outland.errors import OutlandError
from outland.training import RunSpec

WORDS = ["data.limit=96", "backbone.width=8", "train.epochs=5", "train.batch_size=16"]


def spec(*more, method="aia", seed=1, **rest):
    return RunSpec.from_words("motif", method, [*WORDS, *more], seed=seed, **rest)


def test_spec_spells_everything_out_and_its_key_follows_every_setting():
    base = spec()
    assert base.train.burn_in == 0.7  # Motif's recommendation
    assert base.method_params.gamma == 0.2
    assert spec().key == base.key
    others = [
        spec("method.gamma=0.5"),
        spec(seed=2),
        spec(method="aia:paper"),
        spec("train.burn_in=0"),
        spec(kind="none"),
    ]
    assert len({base.key, *(other.key for other in others)}) == 6
    assert json.loads(json.dumps(base.to_json()))["backbone"]["width"] == 8


@pytest.mark.parametrize("method", ["erm", "aia:paper", "aia:rdia"])
def test_spec_from_json_is_the_spec(method):
    assert RunSpec.from_json(json.loads(json.dumps(spec(method=method).to_json()))) == spec(method=method)


def test_preset_is_told_and_does_not_make_another_run():
    assert spec(method="aia:released").key == spec().key
    assert "aia-released" in spec(method="aia:released").slug


@pytest.mark.parametrize(
    "word",
    [
        "train.epochs=0",
        "train.checkpoint_every=0",
        "train.weight_decay=-1",
        "train.burn_in=3",
        "data.limit=-1",
        "data.seed=-1",
        "method.lr=-1",
        "method.gamma=inf",
        "method.drop=3",
        "method.lambda_s=1.5",
    ],
)
def test_numbers_out_of_range_are_refused(word):
    with pytest.raises(OutlandError, match=rf"{word.partition('=')[0]} must be"):
        spec(word)


def test_negative_seed_and_unknown_group():
    with pytest.raises(OutlandError, match=r"run.seed must be at least 0"):
        spec(seed=-1)
    with pytest.raises(OutlandError, match="unknown group of settings 'metod'"):
        RunSpec.make("motif", "erm", changes={"metod": {}})
