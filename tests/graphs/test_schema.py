import json
import pickle

import pytest

from outland.errors import OutlandError
from outland.graphs import Features, Schema, Task
from tests.conftest import CHEMICAL, REAL


@pytest.mark.parametrize("schema", [REAL, CHEMICAL])
def test_a_schema_survives_a_file_and_a_process(schema):
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema
    assert pickle.loads(pickle.dumps(schema)) == schema


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("node.width", 0, "impossible features"),
        ("node.width", True, "not of the right kinds"),
        ("node.width", 2.0, "not of the right kinds"),
        ("node.width", "2", "not of the right kinds"),
        ("node.vocabulary", [5], "impossible features"),
        ("node.vocabulary", [5, 0], "impossible features"),
        ("edge.vocabulary", "4", "not of the right kinds"),
        ("edge", [], "not of the right kinds"),
        ("node", None, "not of the right kinds"),
        ("task.outputs", 0, "an impossible task"),
        ("task.kind", "ranking", "not of the right kinds"),
        ("task.metric", "\udcff", "not of the right kinds"),
        ("environments", -1, "an impossible task"),
        ("environments", float("nan"), "not of the right kinds"),
        ("colour", 1, "not of the right kinds"),
    ],
)
def test_values_that_are_no_schema_are_refused(path, value, message):
    plain = json.loads(json.dumps(CHEMICAL.to_json()))
    *parents, name = path.split(".")
    owner = plain
    for parent in parents:
        owner = owner[parent]
    owner[name] = value
    with pytest.raises(ValueError, match=message):
        Schema.from_json(plain)


def test_a_mistaken_task_is_refused_in_a_sentence():
    with pytest.raises(OutlandError, match=r"unknown value of task\.metric 'auroc'.*Valid: accuracy, ap, rmse, rocauc"):
        Task("binary", 1, "auroc")
    with pytest.raises(OutlandError, match=r"features\.width must be at least 1, not 0"):
        Features(0)
