import json
import re
import sys
import time
from types import SimpleNamespace

import pytest

from outland.cli import main
from outland.errors import OutlandError
from outland.studies import find_study, search
from outland.studies.search import Search
from outland.studies.tuned import with_tuned_settings
from outland.training import RunSpec
from tests.faults.children import command
from tests.faults.harness import begin

SMALL = {"train": {"epochs": 10}, "data": {"limit": 48}, "backbone": {"width": 8}}


@pytest.fixture(autouse=True)
def _optuna():
    pytest.importorskip("optuna", reason="Optuna is not installed: pip install 'outland[tune]'")


def fake_run(score):
    """In the place of training: ten epochs of scores that depend on the settings; there is no test part to look at."""

    def run(spec, out, callback, **rest):
        curves = [{"epoch": e, "val": {"accuracy": score(spec.method_params, e)}, "loss": {}} for e in range(10)]
        for row in curves:
            callback.on_epoch_end(row, "accuracy")
        best = max(row["val"]["accuracy"] for row in curves)
        return SimpleNamespace(
            selection={"ood_val": {"val": best}}, selected="ood_val", metric="accuracy", curves=curves
        )

    return run


def test_the_best_settings_are_found_and_those_behind_are_given_up(tmp_path, monkeypatch):
    def score(settings, epoch):
        return 1 - abs(settings.gamma - 2) / 10 - abs(settings.lambda_s - 0.4) + 0.001 * epoch

    monkeypatch.setattr(search, "run", fake_run(score))
    base = RunSpec.make("motif", "aia", changes=SMALL)
    hunt = Search(base, 40, tmp_path)
    hunt.run_trials()
    report = json.loads((hunt.folder / "search.json").read_text())
    assert (len(report["trials"]), report["finished"], report["budget"]) == (40, True, 40)
    settings = [json.dumps(row["params"], sort_keys=True) for row in report["trials"]]
    assert len(set(settings)) == 40  # nothing is tried twice
    first = next(row for row in report["trials"] if row["number"] == 1)
    assert first["params"] == {name: getattr(base.method_params, name) for name in report["space"]}
    values = [row["value"] for row in report["trials"] if row["state"] == "complete"]
    assert report["best"]["value"] == max(values) > first["value"]
    given_up = [row for row in report["trials"] if row["state"] == "pruned"]
    assert len(given_up) > 5
    assert all(3 <= row["epochs"] < 10 for row in given_up)  # a fifth of the epochs is always granted


def test_a_small_space_is_searched_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "run", fake_run(lambda settings, epoch: settings.lr))
    hunt = Search(RunSpec.make("motif", "erm", changes=SMALL), 20, tmp_path)
    hunt.run_trials()
    report = hunt.report()
    assert sorted(row["params"]["lr"] for row in report["trials"]) == [0.001, 0.005, 0.01]
    assert report["best"]["params"] == {"lr": 0.01}
    assert report["finished"]
    Search(hunt.base, 2, tmp_path).run_trials()  # asking for less does not make it a smaller search
    report = json.loads((hunt.folder / "search.json").read_text())
    assert (report["budget"], len(report["trials"]), report["finished"]) == (3, 3, True)


def test_a_trial_that_fails_is_told_and_counts(tmp_path, monkeypatch):
    def score(settings, epoch):
        if settings.lr == 0.005:
            raise OutlandError("the loss became NaN")
        return 0.5

    monkeypatch.setattr(search, "run", fake_run(score))
    hunt = Search(RunSpec.make("motif", "erm", changes=SMALL), 20, tmp_path)
    hunt.run_trials()
    assert {row["params"]["lr"]: row["error"] for row in hunt.report()["trials"]}[0.005] == "the loss became NaN"
    assert len(hunt.report()["trials"]) == 3


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
    monkeypatch.setattr(search, "run", fake_run(lambda settings, epoch: settings.lr))
    hunt = Search(RunSpec.make("motif", "erm", changes=SMALL), 1, tmp_path)
    hunt.run_trials()
    with (hunt.folder / "journal.log").open("ab") as journal:
        journal.write(torn)
    Search(hunt.base, 3, tmp_path).run_trials()
    assert sorted(row["params"]["lr"] for row in hunt.report()["trials"]) == [0.001, 0.005, 0.01]


def test_a_study_takes_the_settings_that_were_found(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "run", fake_run(lambda settings, epoch: settings.lr))
    study = find_study("sensitivity")
    words, only = ["train.epochs=10", "data.limit=48", "backbone.width=8"], ["ERM/motif-base", "γ 0.5/motif-base"]
    cells = study.cells(2, words, only)
    with pytest.raises(OutlandError, match="outland tune motif --domain base --kind covariate --method"):
        with_tuned_settings(cells, tmp_path)
    for method, trials in (("erm", 9), ("aia", 8)):
        Search(RunSpec.make("motif", method, changes=SMALL), trials, tmp_path).run_trials()
    with pytest.raises(OutlandError, match="8, 9 trials: a fair study"):
        with_tuned_settings(cells, tmp_path)
    Search(RunSpec.make("motif", "aia", changes=SMALL), 9, tmp_path).run_trials()
    erm, aia = with_tuned_settings(cells, tmp_path)
    (report,) = (json.loads(path.read_text()) for path in tmp_path.glob("*-aia-*/search.json"))
    assert [spec.method_params.lr for spec in erm.specs] == [0.01, 0.01]
    assert aia.specs[0].method_params.lambda_s == report["best"]["params"]["lambda_s"]
    assert aia.specs[0].method_params.gamma == 0.5  # what the row is about
    assert aia.row.changes["method"]["gamma"] == 0.5
    assert [spec.seed for spec in aia.specs] == [0, 1]
    assert aia.specs[0].train == cells[1].specs[0].train  # only the method's own settings are tuned
    with pytest.raises(OutlandError, match=r"ERM/motif-base has train.epochs=100, and its search had 10: search again"):
        with_tuned_settings(study.cells(2, words[1:], only), tmp_path)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "search.json").write_text("{")
    with pytest.raises(OutlandError, match="not the report of a search"):
        with_tuned_settings(cells, tmp_path)


def test_without_optuna_a_search_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(OutlandError, match=r"pip install 'outland\[tune\]'"):
        Search(RunSpec.make("motif", "erm", changes=SMALL), 3, tmp_path).run_trials()


def test_workers_share_a_search(motif, cache, tmp_path):
    changes = {**SMALL, "train": {"epochs": 1}}
    hunt = Search(RunSpec.make("motif", "erm", changes=changes), 3, tmp_path)
    hunt.run(2, device="cpu", cache=cache)
    report = json.loads((hunt.folder / "search.json").read_text())
    assert sorted(row["params"]["lr"] for row in report["trials"]) == [0.001, 0.005, 0.01]
    assert [row["state"] for row in report["trials"]] == ["complete"] * 3


def test_tune_says_what_it_found(motif, cache, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OUTLAND_CACHE", str(cache.folder))
    words = ["tune", "motif", "--method", "erm", "--trials", "2", "--epochs", "1", "--limit", "48", "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", ["outland", *words, "--set", "backbone.width=8", "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as end:
        main()
    out = capsys.readouterr().out
    assert not end.value.code
    assert "2 trials of at most 2: 2 complete" in out
    assert "best: --set method.lr=" in out
    assert "test" not in out.replace(str(tmp_path), "")
