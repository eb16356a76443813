import json

import pytest

from outland.errors import OutlandError
from outland.stopping import Stopped
from outland.studies.search import Search
from outland.training import RunSpec
from tests.studies.cases import SEARCHED, fake_run

pytestmark = pytest.mark.usefixtures("optuna")


def test_the_best_settings_are_found_and_those_behind_are_given_up(tmp_path, monkeypatch):
    def score(settings, epoch):
        return 1 - abs(settings.gamma - 2) / 10 - abs(settings.lambda_s - 0.4) + 0.001 * epoch

    monkeypatch.setattr("outland.studies.search.run", fake_run(score))
    base = RunSpec.make("motif", "aia", changes=SEARCHED)
    search = Search(base, 40, tmp_path)
    search.run_trials()
    report = json.loads((search.folder / "search.json").read_text())
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
    monkeypatch.setattr("outland.studies.search.run", fake_run(lambda settings, epoch: settings.lr))
    search = Search(RunSpec.make("motif", "erm", changes=SEARCHED), 20, tmp_path)
    search.run_trials()
    report = search.report()
    assert sorted(row["params"]["lr"] for row in report["trials"]) == [0.001, 0.005, 0.01]
    assert report["best"]["params"] == {"lr": 0.01}
    assert report["finished"]
    Search(search.base, 2, tmp_path).run_trials()  # asking for less does not make it a smaller search
    report = json.loads((search.folder / "search.json").read_text())
    assert (report["budget"], len(report["trials"]), report["finished"]) == (3, 3, True)


def test_a_trial_that_fails_is_told_and_counts(tmp_path, monkeypatch):
    def score(settings, epoch):
        if settings.lr == 0.005:
            raise OutlandError("the loss became NaN")
        return 0.5

    monkeypatch.setattr("outland.studies.search.run", fake_run(score))
    search = Search(RunSpec.make("motif", "erm", changes=SEARCHED), 20, tmp_path)
    search.run_trials()
    assert {row["params"]["lr"]: row["error"] for row in search.report()["trials"]}[0.005] == "the loss became NaN"
    assert len(search.report()["trials"]) == 3


def test_a_search_that_is_asked_to_stop_stops_and_goes_on_with_its_trial(tmp_path, monkeypatch):
    def score(settings, epoch):
        if epoch == 7:
            raise Stopped("stopped after epoch 7, with a checkpoint")
        return 0.5

    monkeypatch.setattr("outland.studies.search.run", fake_run(score))
    search = Search(RunSpec.make("motif", "erm", changes=SEARCHED), 20, tmp_path)
    with pytest.raises(Stopped, match="after epoch 7"):
        search.run_trials()
    assert [row["state"] for row in search.report()["trials"]] == ["running"]
    monkeypatch.setattr("outland.studies.search.run", fake_run(lambda settings, epoch: settings.lr))
    search.run_trials()
    assert sorted(row["params"]["lr"] for row in search.report()["trials"]) == [0.001, 0.005, 0.01]
    assert {row["state"] for row in search.report()["trials"]} <= {"complete", "pruned"}


def test_workers_share_a_search(motif, cache, tmp_path):
    changes = {**SEARCHED, "train": {"epochs": 1}}
    search = Search(RunSpec.make("motif", "erm", changes=changes), 3, tmp_path)
    search.run(2, device="cpu", cache=cache)
    report = json.loads((search.folder / "search.json").read_text())
    assert sorted(row["params"]["lr"] for row in report["trials"]) == [0.001, 0.005, 0.01]
    assert [row["state"] for row in report["trials"]] == ["complete"] * 3
