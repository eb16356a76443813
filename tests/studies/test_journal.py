import json
import re
import sys
import time

import pytest

from outland.errors import OutlandError
from outland.studies.search import Search
from outland.training import RunSpec
from tests.faults.children import command
from tests.faults.harness import begin
from tests.studies.cases import SEARCHED, fake_run

pytestmark = pytest.mark.usefixtures("optuna")


def test_two_processes_share_a_search_that_outlives_one_of_them(motif, cache, tmp_path):
    words = ["tune", "motif", "--method", "vrex", "--trials", "8", "--epochs", "6", "--limit", "48"]
    words += ["--set", "backbone.width=8", "--out", str(tmp_path), "--device", "cpu"]
    first, second = (begin(command, words, tmp_path / f"log{place}", cache.folder) for place in (1, 2))
    try:
        kept = _wait_for(tmp_path, records=2)
    finally:
        first.kill()
    second.join(60)
    assert second.exitcode == 0, (tmp_path / "log2").read_text()
    (path,) = tmp_path.glob("*/search.json")
    report = json.loads(path.read_text())
    assert report["finished"]
    assert len(report["trials"]) == 8
    assert len({json.dumps(row["params"], sort_keys=True) for row in report["trials"]}) == 8
    assert all(record.stat().st_mtime_ns == when for record, when in kept.items())  # what was done was left alone
    done = {row["slug"]: row for row in report["trials"]}
    for record in kept:
        chosen = json.loads(record.read_text())
        assert done[record.parent.name]["value"] == chosen["selection"][chosen["selected"]]["val"]
    stamps = re.findall(r'"process": ?"(\w+)"', (path.parent / "journal.log").read_text())
    assert len(set(stamps)) == 2  # both took trials
    assert len(stamps) in (8, 9)  # one more where a trial was begun by the one that was killed


def _wait_for(folder, records):
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = list(folder.glob("*/runs/*/record.json"))
        journals = list(folder.glob("*/journal.log"))
        if len(found) >= records and len(set(re.findall(r'"process": ?"(\w+)"', journals[0].read_text()))) == 2:
            return {path: path.stat().st_mtime_ns for path in found}
        time.sleep(0.01)
    raise AssertionError("the processes took no trials")


@pytest.mark.parametrize("torn", [b'{"op_code":4,"wor', b"{"])
def test_a_line_torn_by_a_full_disk_does_not_end_a_search(tmp_path, monkeypatch, torn):
    monkeypatch.setattr("outland.studies.search.run", fake_run(lambda settings, epoch: settings.lr))
    search = Search(RunSpec.make("motif", "erm", changes=SEARCHED), 1, tmp_path)
    search.run_trials()
    with (search.folder / "journal.log").open("ab") as journal:
        journal.write(torn)
    Search(search.base, 3, tmp_path).run_trials()
    assert sorted(row["params"]["lr"] for row in search.report()["trials"]) == [0.001, 0.005, 0.01]


def test_without_optuna_a_search_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(OutlandError, match=r"pip install 'outland\[tune\]'"):
        Search(RunSpec.make("motif", "erm", changes=SEARCHED), 3, tmp_path).run_trials()
