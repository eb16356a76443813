import json
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from filelock import FileLock

from outland.cli import main
from outland.datasets import TableSettings
from outland.errors import Busy, OutlandError
from outland.graphs import Cache
from outland.studies import STUDIES, find_study
from outland.studies.base import Measurement
from outland.studies.commands import cell_command
from outland.studies.durations import calibrate, estimate_seconds, format_duration
from outland.studies.run_store import RunStore
from outland.studies.runner import run_study
from outland.training import RunRecord, RunSpec, run
from tests.conftest import SAMPLES

TINY = ["train.epochs=2", "data.limit=48", "backbone.width=8"]
SETS = [part for word in TINY for part in ("--set", word)]


@pytest.fixture
def outland(cache, tmp_path, monkeypatch, capsys):
    """The command line, in this process."""
    monkeypatch.setenv("OUTLAND_CACHE", str(cache.folder))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    def call(*words: str):
        monkeypatch.setattr(sys, "argv", ["outland", *words])
        with pytest.raises(SystemExit) as end:
            main()
        captured = capsys.readouterr()
        return end.value.code or 0, captured.out, captured.err

    return call


def test_killed_study_goes_on_and_renders_its_page(motif, outland, cache, tmp_path):
    words = ["study", "ablation", "--seeds", "2", "--epochs", "5", "--limit", "48", "--set", "backbone.width=8"]
    words += ["--only", "*/motif-base", "--out", str(tmp_path / "studies"), "--device", "cpu"]
    environment = {**os.environ, "OUTLAND_CACHE": str(cache.folder), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-m", "outland", *words], env=environment, stderr=subprocess.PIPE)
    runs = tmp_path / "studies" / "runs"
    try:
        begun = _wait_for_a_begun_run(process, runs, done=3)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
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
    while time.monotonic() < until and process.poll() is None:
        if len(list(runs.glob("*/record.json"))) >= done:
            for folder in runs.glob("*/checkpoints/epoch-*"):
                record = folder.parents[1] / "record.json"
                if not record.exists():
                    return record
        time.sleep(0.005)
    raise AssertionError(f"no run was seen under way: {process.communicate()}")


def _cells(*only: str, words=TINY):
    study = find_study("ablation")
    return study, study.cells(1, words, only)


def test_failed_runs_are_listed_and_retried(motif, outland, cache, tmp_path, monkeypatch):
    from outland.methods.erm import ERM

    study, cells = _cells("motif-base")
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
    def refuse(url, output_file, pooch=None):
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
    (tmp_path / "moleculenet").mkdir(exist_ok=True)
    (tmp_path / "moleculenet" / "BBBP.csv").write_text("not the published one")
    assert "failed earlier and left alone" in outland(*words)[2]
    err = outland(*words, "--retry")[2]
    assert "is not the published file" in err
    assert "is missing" not in err


def test_a_report_of_settings_that_were_not_run_names_those_that_were(motif, outland, cache, tmp_path):
    study, cells = _cells("ERM/motif-base", "RDIA/motif-base")
    run_study(study, cells, tmp_path, device="cpu", cache=cache)
    there = f"{tmp_path / 'runs'} has finished runs of this study in other settings: "
    there += "--set backbone.width=8 --set train.epochs=2 --set data.limit=48 (2 runs)"
    words = ["study", "ablation", "--report", "--out", str(tmp_path)]
    status, _, err = outland(*words)
    assert status == 2
    assert f"no run of the study ablation with these settings is done: there is nothing to report. {there}" in err
    status, out, _ = outland(*words, *SETS)
    assert status == 0
    assert "other settings" not in out  # of these, ERM and RDIA are there
    words += ["--set", "backbone.width=8", "--set", "data.limit=48"]
    run_study(study, study.cells(1, ["train.epochs=1", *TINY[1:]], ["AIA/motif-base"]), tmp_path, cache=cache)
    assert f"note: {there}" in outland(*words, "--epochs", "1")[1]
    assert "in other settings" not in outland("study", "tu", "--report", "--out", str(tmp_path))[2]


def test_a_row_without_training_does_not_share_the_failures_of_training(motif, cache, tmp_path):
    study = replace(find_study("shift"), measure=lambda *rest: Measurement({"aug_train": 0.1, "aug_test": 0.2}))
    original, flag = study.cells(1, TINY, ["Original/motif-base", "FLAG/motif-base"])
    store, other = RunStore(study, tmp_path), RunStore(find_study("covariate"), tmp_path)
    for cell in (original, flag):
        other.save_failure(cell.specs[0], OutlandError("no memory"))
    assert [store.state(cell, cell.specs[0]) for cell in (original, flag)] == ["waiting", "failed"]
    assert run_study(study, [original], tmp_path, retry=True, device="cpu", cache=cache).states == {"done": 1}
    assert (store.run_folder(original.specs[0]).path / "failure.json").exists()  # that is not ours to forget
    record = store.run_folder(original.specs[0]).record_path
    record.write_text("damaged")
    assert run_study(study, [original], tmp_path, device="cpu", cache=cache).states == {"done": 1}
    assert record.read_text() == "damaged"  # nor to put aside
    store.save_failure(original.specs[0], OutlandError("no edges"), measuring=True)
    store.measurement_path(original.specs[0]).write_text('{"values": {"aug_train": "near"}}')
    assert run_study(study, [original], tmp_path, device="cpu", cache=cache).states == {"failed": 1}


def test_a_damaged_record_is_a_failure_and_can_be_made_again(motif, cache, tmp_path):
    study, cells = _cells("ERM/motif-base")
    run_study(study, cells, tmp_path, device="cpu", cache=cache)
    path = RunStore(study, tmp_path).run_folder(cells[0].specs[0]).record_path
    whole = RunRecord.read(path)
    path.write_text(path.read_text()[:100])
    outcome = run_study(study, cells, tmp_path, device="cpu", cache=cache)
    assert "is not a run record" in outcome.failures[0][2]
    damaged = RunStore(study, tmp_path).run_folder(cells[0].specs[0]).checkpoints.folder / "epoch-00001"
    damaged.mkdir(parents=True)  # none is intact: the run starts over
    assert run_study(study, cells, tmp_path, retry=True, device="cpu", cache=cache).states == {"done": 1}
    assert RunRecord.read(path).curves == whole.curves


def test_a_run_that_another_process_holds_is_not_a_failure(motif, cache, tmp_path):
    study, cells = _cells("ERM/motif-base", "AIA/motif-base")
    folder = RunStore(study, tmp_path).run_folder(cells[0].specs[0]).path
    folder.mkdir(parents=True)
    with FileLock(folder / ".lock"):
        outcome = run_study(study, cells, tmp_path, device="cpu", cache=cache)
    assert outcome.states == {"waiting": 1, "done": 1}
    store, busy = RunStore(study, tmp_path), Busy("another process is working in it")
    assert store.save_failure(cells[0].specs[0], busy) is None  # though it may be gone by now
    assert run_study(study, cells, tmp_path, device="cpu", cache=cache).states == {"done": 2}


def test_measures_are_kept_and_one_that_fails_is_listed(motif, cache, tmp_path):
    asked = []

    def measure(spec, folder, device, cache, data):
        asked.append((spec.method, folder.exists()))
        if spec.method == "dropedge":
            raise OutlandError("no edges to drop")
        return Measurement({"aug_train": 0.1, "aug_test": 0.2 + spec.seed})

    study = replace(find_study("shift"), measure=measure)
    cells = study.cells(2, TINY, ["Original/motif-base", "DropEdge/motif-base", "FLAG/motif-base"])
    outcome = run_study(study, cells, tmp_path, device="cpu", cache=cache)
    assert outcome.states == {"done": 4, "failed": 2}
    assert outcome.failures[0][2] == "no edges to drop"
    assert asked[0] == ("erm", False)  # nothing was trained for it
    assert asked[-1] == ("flag", True)
    store = RunStore(study, tmp_path)
    assert store.record(cells[0].specs[0]) is None
    assert store.measurement(cells[2].specs[1]).values == {"aug_train": 0.1, "aug_test": 1.2}
    assert store.record(cells[2].specs[1]) is not None
    asked.clear()
    assert not run_study(study, cells, tmp_path, device="cpu", cache=cache).executed
    assert asked == []


@pytest.mark.parametrize("name", STUDIES)
def test_dry_run_says_what_would_be_run(outland, name, tmp_path):
    status, out, err = outland("study", name, "--dry-run")
    assert status == 0, err
    study = find_study(name)
    cells = len(study.rows) * len(study.columns)
    assert f"{cells} cells, {10 * cells:,} runs: {10 * cells:,} waiting" in out
    assert all(row.label in out for row in study.rows)
    assert out.count("0/10") == cells
    assert not (tmp_path / "studies").exists()


def test_the_list_says_runs_and_hours(outland):
    status, out, _ = outland("study", "list")
    assert status == 0
    rows = {line.split("│")[1].strip(): line.split("│")[2:4] for line in out.splitlines() if "│" in line}
    assert int(rows["covariate"][0]) == 1190
    assert int(rows["tu"][0]) == 360
    hours = {name: float(row[1].replace(",", "")) for name, row in rows.items()}
    assert hours["covariate"] > hours["tu"] > 0
    assert hours["all"] < sum(value for name, value in hours.items() if name != "all")
    trained: set[str] = set()
    alone = 0
    for name in STUDIES:
        for cell in find_study(name).cells():
            trained |= {spec.slug for spec in cell.specs} if cell.row.trained else set()
            alone += 0 if cell.row.trained else len(cell.specs)
    assert int(rows["all"][0]) == len(trained) + alone == 3090
    twenty = outland("study", "list", "--seeds", "20")[1]
    rows = {line.split("│")[1].strip(): line.split("│")[2:4] for line in twenty.splitlines() if "│" in line}
    assert (int(rows["covariate"][0]), int(rows["tu"][0])) == (2380, 360)


def test_small_numbers_are_said_as_people_say_them(outland):
    out = outland("study", "ablation", "--seeds", "1", "--only", "ERM/motif-base", *SETS, "--dry-run")[1]
    assert "1 cell, 1 run: 1 waiting; about a second to train on this machine" in out
    assert [format_duration(seconds) for seconds in (0.0, 1.6, 59, 90, 3 * 3600, 3 * 86400)] == [
        *("a second", "2 s", "59 s", "1.5 min", "3.0 h", "3.0 d")
    ]


def test_estimates_grow_with_the_work():
    spec = RunSpec.make("motif", "erm", recipe=None)
    double = RunSpec.make("motif", "erm", changes={"train": {"epochs": 200}})
    assert estimate_seconds(double) == pytest.approx(2 * estimate_seconds(spec))
    assert estimate_seconds(RunSpec.make("motif", "aia")) > 2 * estimate_seconds(spec)
    assert (
        estimate_seconds(RunSpec.make("motif", "erm", changes={"data": {"limit": 100}})) < estimate_seconds(spec) / 20
    )
    assert estimate_seconds(spec, speed=3.0) == pytest.approx(3 * estimate_seconds(spec))
    assert 0.05 < calibrate() < 20


def test_an_estimate_is_of_the_right_size(motif, cache, tmp_path):
    spec = RunSpec.make("motif", "erm", changes={"train": {"epochs": 1}, "data": {"limit": 160}})
    record = run(spec, tmp_path, device="cpu", cache=cache)
    assert 0.2 < estimate_seconds(spec, calibrate()) / record.timing["seconds"] < 5


@pytest.mark.parametrize("cell", ["VREx/motif-base", "AIA/molbbbp-size"])
def test_the_command_of_a_cell_is_exact(cell):
    study = find_study("covariate")
    (found,) = study.cells(3, TINY, [cell])
    words = shlex.split(cell_command(study, found, TINY))
    assert words[:2] == ["outland", "train"]
    options = dict(zip(words[3::2], words[4::2], strict=True))
    sets = [value for name, value in zip(words[3::2], words[4::2], strict=True) if name == "--set"]
    spec = RunSpec.from_words(words[2], options["--method"], sets, domain=options["--domain"], kind=options["--kind"])
    assert spec == found.specs[0]
    assert options["--seeds"] == "3"


def test_a_cell_can_be_reproduced_by_its_command(motif, outland, tmp_path):
    study = find_study("backbones")
    (cell,) = study.cells(2, TINY, ["GAT AIA/motif-base"])
    words = shlex.split(cell_command(study, cell, TINY))
    assert outland(*words[1:], "--device", "cpu")[0] == 0
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {spec.slug for spec in cell.specs}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["study", "ablatoin"], "Did you mean 'ablation'"),
        (["study", "ablation", "--only", "x/y"], "unknown cell of the study ablation 'x/y'"),
        (["study", "ablation", "--report"], "no run of the study ablation is done"),
        (["study", "ablation", "--seeds", "0"], "must be 1 or more"),
        (["study", "ablation", "--engine", "rya"], "unknown engine 'rya'. Did you mean 'ray'"),
        (["study", "ablation", "--cpus", "2"], "--cpus is for --engine ray"),
        (["study", "ablation", "--engine", "ray", "--workers", "2"], "--workers is for --engine local"),
        (["study", "ablation", "--shard", "3/2"], "write it as I/N"),
        (["study", "ablation", "--device", "tpu"], "unknown device 'tpu'"),
        (["train", "cmnist", "--recipe", "motif"], "the recipe motif is for motif, not for cmnist"),
        (["train", "motif", "--recipe", "motiff"], "Did you mean 'motif'"),
        (["list", "recipes", "motiff"], "Did you mean 'motif'"),
    ],
)
def test_mistakes_get_a_sentence(outland, words, sentence):
    status, _, err = outland(*words)
    assert status == 2
    assert sentence in err
    assert "Traceback" not in err


def test_recipes_are_listed(outland):
    assert "six small collections" in outland("list", "recipes")[1]
    out = outland("list", "recipes", "motif")[1]
    assert "common.method.aia" in out
    assert "the paper has 1" in out


def test_a_record_counts_the_classes_of_a_yes_or_no_task(tmp_path):
    table = TableSettings(str(SAMPLES / "bbbp.csv"), target=("p_np",))
    spec = RunSpec.make("bbbp", "erm", changes={"train": {"epochs": 1}, "backbone": {"width": 8}}, table=table)
    record = run(spec, tmp_path, device="cpu", cache=Cache(tmp_path / "cache"))
    assert {part: sum(counts) for part, counts in record.data["class_counts"].items()} == record.data["sizes"]
    assert min(record.data["class_counts"]["test"]) > 0


def test_a_study_stopped_by_hand_says_how_to_go_on(motif, outland, monkeypatch):
    from outland.training.trainer import Trainer

    def stop(*rest):
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "_epoch", stop)
    status, _, err = outland("study", "ablation", "--only", "ERM/motif-base", *SETS)
    assert status == 130
    assert "Stopped. The same command goes on from the last checkpoints." in err
