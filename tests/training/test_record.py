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
