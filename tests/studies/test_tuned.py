import json

import pytest

from outland.errors import OutlandError
from outland.studies import find_study
from outland.studies.search import Search
from outland.studies.tuned import with_tuned_settings
from outland.training import RunSpec
from tests.studies.cases import SEARCHED, fake_run

pytestmark = pytest.mark.usefixtures("optuna")


def test_a_study_takes_the_settings_that_were_found(tmp_path, monkeypatch):
    monkeypatch.setattr("outland.studies.search.run", fake_run(lambda settings, epoch: settings.lr))
    study = find_study("sensitivity")
    words, only = ["train.epochs=10", "data.limit=48", "backbone.width=8"], ["ERM/motif-base", "γ 0.5/motif-base"]
    cells = study.cells(2, words, only)
    with pytest.raises(OutlandError, match="outland tune motif --domain base --kind covariate --method"):
        with_tuned_settings(cells, tmp_path)
    for method, trials in (("erm", 9), ("aia:released", 8)):
        Search(RunSpec.make("motif", method, changes=SEARCHED), trials, tmp_path).run_trials()
    with pytest.raises(OutlandError, match="8, 9 trials: a fair study"):
        with_tuned_settings(cells, tmp_path)
    Search(RunSpec.make("motif", "aia:released", changes=SEARCHED), 9, tmp_path).run_trials()
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
