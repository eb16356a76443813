import json
import time

from outland.studies.runner import run_study
from outland.training import RunRecord, RunSpec, run
from tests.faults.children import command
from tests.faults.harness import begin
from tests.studies.cases import SETS, ablation_cells


def test_killed_study_goes_on_and_renders_its_page(motif, outland, cache, tmp_path):
    words = ["study", "ablation", "--seeds", "2", "--epochs", "5", "--limit", "48", "--set", "backbone.width=8"]
    words += ["--set", "train.checkpoint_every=1"]
    words += ["--only", "*/motif-base", "--out", str(tmp_path / "studies"), "--device", "cpu"]
    process = begin(command, words, tmp_path / "log", cache.folder)
    runs = tmp_path / "studies" / "runs"
    try:
        begun = _wait_for_a_begun_run(process, runs, done=3)
    finally:
        process.kill()
        process.join()
    before = {path: path.stat().st_mtime_ns for path in runs.glob("*/record.json")}
    assert 3 <= len(before) < 10
    for path in before:
        assert RunRecord.read(path).curves[-1]["epoch"] == 4  # whole, every one of them

    status, out, err = outland(*words)
    assert status == 0, err
    assert f"{10 - len(before)} carried out now" in out
    assert "runs: 10 done" in out
    assert "Going on at epoch" in err
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())  # what was done was left alone
    record = RunRecord.read(begun)
    alone = run(RunSpec.from_json(record.spec), tmp_path / "alone", device="cpu", cache=cache)
    assert record.curves == alone.curves  # as if it had never been killed

    (report,) = (tmp_path / "studies").glob("*.html")
    assert report.name.startswith("ablation-2-seeds-part-changed-")  # ablation.html is for the whole
    assert f"page: {report}  (also .md, .tex, .csv; ablation.html is for the whole study" in out
    page = report.read_text()
    assert "10 of 10 runs" in page
    assert 'id="figure-bars"' in page
    assert 'id="figure-learning"' in page
    assert outland(*words)[1].count("0 carried out now") == 1


def _wait_for_a_begun_run(process, runs, done):
    """The record-to-be of a run that is under way when so many are done."""
    until = time.monotonic() + 60
    while time.monotonic() < until and process.is_alive():
        if len(list(runs.glob("*/record.json"))) >= done:
            for folder in runs.glob("*/checkpoints/epoch-*"):
                record = folder.parents[1] / "record.json"
                if not record.exists():
                    return record
        time.sleep(0.005)
    raise AssertionError("no run was seen under way")


def test_failed_runs_are_listed_and_retried(motif, outland, cache, tmp_path, monkeypatch):
    from outland.methods.erm import ERM

    study, cells = ablation_cells("motif-base")
    kept = ERM.loss
    monkeypatch.setattr(ERM, "loss", lambda self, batch, progress: 1 / 0)
    outcome = run_study(study, cells, tmp_path, device="cpu", cache=cache)
    assert outcome.states == {"done": 4, "failed": 1}
    ((cell, folder, error),) = outcome.failures
    assert (cell, error) == ("ERM/motif-base", "ZeroDivisionError: division by zero")
    assert json.loads((tmp_path / "runs" / folder / "failure.json").read_text())["error"] == error

    monkeypatch.setattr(ERM, "loss", kept)
    again = run_study(study, cells, tmp_path, device="cpu", cache=cache)
    assert (len(again.executed), again.states["failed"]) == (0, 1)  # it stays failed until it is retried
    words = ["study", "ablation", "--seeds", "1", "--only", "motif-base", *SETS, "--out", str(tmp_path)]
    status, out, err = outland(*words, "--dry-run")
    assert status == 0
    assert "0/1!" in out
    assert "division by zero" in err
    status, out, err = outland(*words)
    assert status == 1
    assert f"failed earlier and left alone: ERM/motif-base ({folder}): ZeroDivisionError" in err
    assert "--retry tries them again" in err
    status, out, _ = outland(*words, "--retry")
    assert status == 0
    assert "5 done; 1 carried out now" in out


def test_a_run_that_lacked_its_file_is_tried_again_when_asked(outland, tmp_path, monkeypatch):
    asked = []

    def refuse(url, output_file, pooch=None):
        asked.append(url)
        raise OSError("there is no network")

    monkeypatch.setattr("outland.storage.raw_files.download", refuse)
    monkeypatch.setenv("OUTLAND_CACHE", str(tmp_path / "cache"))  # others may have prepared it
    words = ["study", "ablation", "--seeds", "2", "--only", "*/molbbbp", *SETS, "--out", str(tmp_path)]
    words += ["--data", str(tmp_path)]
    status, _, err = outland(*words)
    assert status == 2
    told = next(line for line in err.splitlines() if line.startswith("failed: "))
    assert told.startswith(
        "failed: ERM/molbbbp-scaffold, w/o Adv/molbbbp-scaffold, w/o Sta/molbbbp-scaffold and 2 other"
    )
    assert "(10 runs, the first molbbbp-scaffold-covariate-erm-seed0-" in told
    assert f"put it at {tmp_path}/moleculenet/BBBP.csv" in told
    assert len(asked) <= 3  # by the first of ten runs, with retries
    assert sum("put it at" in line for line in err.splitlines()) == 5 + 1  # once for each cell, and the summary
    (tmp_path / "moleculenet").mkdir(exist_ok=True)
    (tmp_path / "moleculenet" / "BBBP.csv").write_text("not the published one")
    assert "failed earlier and left alone" in outland(*words)[2]
    err = outland(*words, "--retry")[2]
    assert "is not the published file" in err
    assert "is missing" not in err
