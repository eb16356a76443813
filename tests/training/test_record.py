import json
import math

import pytest

from outland.datasets import TableSettings
from outland.errors import OutlandError
from outland.graphs import Cache
from outland.training import RunRecord, RunSpec, run
from tests.conftest import SAMPLES


def test_a_record_counts_the_classes_of_a_yes_or_no_task(tmp_path):
    table = TableSettings(str(SAMPLES / "bbbp.csv"), target=("p_np",))
    spec = RunSpec.make("bbbp", "erm", changes={"train": {"epochs": 1}, "backbone": {"width": 8}}, table=table)
    record = run(spec, tmp_path, device="cpu", cache=Cache(tmp_path / "cache"))
    assert {part: sum(counts) for part, counts in record.data["class_counts"].items()} == record.data["sizes"]
    assert min(record.data["class_counts"]["test"]) > 0


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 99}'])
def test_what_is_no_record_is_refused(tmp_path, text):
    path = tmp_path / "record.json"
    path.write_text(text)
    with pytest.raises(OutlandError, match=r"not a run record|newer version"):
        RunRecord.read(path)


def test_the_test_score_is_that_of_the_selected_rule(tmp_path, cache):
    words = ["data.limit=48", "backbone.width=8", "train.epochs=2"]
    record = run(RunSpec.from_words("motif", "erm", words), tmp_path, device="cpu", cache=cache)
    assert record.test_score == record.selection[record.selected]["test"]
    empty = {**record.selection, record.selected: {**record.selection[record.selected], "test": None}}
    assert math.isnan(record.model_copy(update={"selection": empty}).test_score)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("selected", "nobody", "the selected rule, the parameters or the seconds are missing"),
        ("curves", [{"epoch": "0"}], "curves is not of the right kind"),
        ("data", {"class_counts": {"test": [1, -1]}}, "the numbers of both classes are not of the right kind"),
        ("metric", 3, "metric is not of the right kind"),
        ("colour", "red", "colour is not of the right kind: Extra inputs"),
    ],
)
def test_a_record_with_values_of_another_kind_is_refused(tmp_path, cache, name, value, words):
    spec = RunSpec.from_words("motif", "erm", ["data.limit=24", "backbone.width=8", "train.epochs=1"])
    record = run(spec, tmp_path, device="cpu", cache=cache, resume=True)
    path = tmp_path / "record.json"
    path.write_text(json.dumps({**record.model_dump(), name: value}))
    with pytest.raises(OutlandError, match=f"is not a run record .*{words}"):
        RunRecord.read(path)
