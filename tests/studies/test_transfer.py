"""Records from one machine to another."""

import json
import lzma
import shutil
from dataclasses import replace

import pytest
from filelock import FileLock

from outland.errors import OutlandError
from outland.models import load_model
from outland.report.study import write_report
from outland.spec import RunSpec, spec_key
from outland.storage.files import write_bytes
from outland.studies import find_study, transfer
from outland.studies.base import Measurement
from outland.studies.results import Results
from outland.studies.run_store import RunStore
from outland.studies.runner import run_study, study_outcome
from outland.studies.transfer import export_records, import_records
from tests.studies.cases import TINY, cells_of

ROWS = ["ERM/motif-base", "AIA (released)/motif-base"]
WHICH = {"seeds": 2, "words": TINY, "only": ["motif-base"]}  # which both studies have


@pytest.fixture(scope="module")
def finished(motif, cache, tmp_path_factory):
    """A folder of studies with four finished runs."""
    out = tmp_path_factory.mktemp("here")
    study, cells = cells_of(2, ROWS)
    assert run_study(study, cells, out, device="cpu", cache=cache).states == {"done": 4}
    return out


@pytest.fixture
def file(finished, tmp_path):
    assert export_records(finished, tmp_path / "records.jsonl.xz").exported == 4
    return tmp_path / "records.jsonl.xz"


def files_of(out, name):
    return {path.parent.name: path.read_bytes() for path in sorted((out / "runs").glob(f"*/{name}"))}


def changed(file, change):
    """The same file with every run changed by a function, which gives a list of runs."""
    header, *lines = lzma.decompress(file.read_bytes()).decode().splitlines()
    runs = [run for line in lines for run in change(json.loads(line))]
    header = json.dumps({**json.loads(header), "runs": len(runs)})
    write_bytes(file, lzma.compress("".join(f"{line}\n" for line in [header, *map(json.dumps, runs)]).encode()))


def test_records_and_reports_are_the_same_to_the_byte(finished, file, tmp_path):
    there = tmp_path / "there"
    result = import_records(file, there)
    assert sorted(result.imported) == list(files_of(finished, "record.json"))
    assert (result.already_here, result.different, result.superseded, result.refused) == (0, [], 0, [])
    for name in ("record.json", "spec.json"):
        assert files_of(there, name) == files_of(finished, name)
    study, cells = cells_of(2, ROWS)
    assert study_outcome(study, cells, there).states == {"done": 4}
    for out in (finished, there):
        write_report(study, cells, out, words=TINY)
    for page in finished.glob("covariate-*"):
        assert (there / page.name).read_bytes() == page.read_bytes()
    assert len(list(there.glob("covariate-*"))) == 4
    again = tmp_path / "again.jsonl.xz"
    export_records(there, again, ["covariate", "ablation"], **WHICH)
    assert again.read_bytes() == file.read_bytes()
    assert import_records(file, there).already_here == 4


def test_an_imported_run_is_done_and_has_no_model(file, tmp_path, cache):
    import_records(file, tmp_path)
    study, cells = cells_of(2, ROWS)
    outcome = run_study(study, cells, tmp_path, device="cpu", cache=cache)
    assert (outcome.states, outcome.executed) == ({"done": 4}, set())
    with pytest.raises(OutlandError, match="has the record of a run and no model"):
        load_model(RunStore(study, tmp_path).run_folder(cells[0].specs[0]).path)
    masks = find_study("masks")
    cells = masks.cells(2, TINY, ["AIA/motif-base"])
    assert write_report(masks, cells, tmp_path, words=TINY).exists()  # its pictures are of models


def test_an_unfinished_run_is_left_out_and_its_rest_makes_way(finished, tmp_path):
    here, file = tmp_path / "here", tmp_path / "file"
    shutil.copytree(finished, here)
    _, cells = cells_of(2, ROWS)
    store = RunStore(find_study("covariate"), here)
    folder = store.run_folder(cells[0].specs[0])
    folder.record_path.unlink()
    (folder.checkpoints.folder / "epoch-00001").mkdir(parents=True)
    store.save_failure(cells[0].specs[0], OutlandError("no memory"))
    assert export_records(here, file, ["covariate"], **WHICH).exported == 3
    assert store.state(cells[0], cells[0].specs[0]) == "failed"
    export_records(finished, file)
    assert import_records(file, here).imported == [cells[0].specs[0].slug]
    assert sorted(path.name for path in folder.path.iterdir()) == [".lock", "record.json", "spec.json"]


def test_what_is_here_stays(file, tmp_path):
    import_records(file, tmp_path)
    path = next((tmp_path / "runs").glob("*/record.json"))
    plain = json.loads(path.read_text())
    plain["timing"]["seconds"] += 1
    path.write_text(json.dumps(plain))
    plain["data"]["versions"], plain["platform"]["torch"] = {"rdkit": "1.0"}, "1.0"
    plain["spec"]["train"]["checkpoint_every"], plain["spec"]["preset"] = 7, "paper"
    path.write_text(json.dumps(plain))
    assert import_records(file, tmp_path).already_here == 4  # equal runs differ in time, and where they were
    plain["curves"][0]["loss"]["risk"] = 7.0
    path.write_text(json.dumps(plain))
    result = import_records(file, tmp_path)
    assert (result.already_here, result.different) == (3, [path.parent.name])
    assert json.loads(path.read_text()) == plain
    path.write_text("damaged")
    result = import_records(file, tmp_path)
    assert (result.already_here, len(result.refused)) == (3, 1)
    assert "is not a run record" in result.refused[0][1]
    assert path.read_text() == "damaged"


def test_without_comparing_what_is_here_is_not_read(file, tmp_path):
    import_records(file, tmp_path)
    damaged, missing = sorted((tmp_path / "runs").glob("*/record.json"))[:2]
    damaged.write_text("damaged")
    missing.unlink()
    result = import_records(file, tmp_path, compare=False)
    assert (result.imported, result.already_here, result.refused) == ([missing.parent.name], 3, [])
    assert damaged.read_text() == "damaged"


def test_a_run_that_another_process_holds_is_refused_with_a_sentence(file, tmp_path):
    folder = tmp_path / "runs" / cells_of(1, ROWS)[1][0].specs[0].slug
    folder.mkdir(parents=True)
    with FileLock(folder / ".lock"):
        result = import_records(file, tmp_path)
    assert (len(result.imported), result.refused) == (3, [(folder.name, f"another process is working in {folder}")])
    assert import_records(file, tmp_path).imported == [folder.name]


def with_settings(run, **settings):
    """A run whose settings were others when it was carried out, with the key of that time."""
    spec = {**run["spec"], "backbone": {**run["spec"]["backbone"], **settings}}
    spec["backbone"] = {name: value for name, value in spec["backbone"].items() if value != "gone"}
    return {**run, "spec": spec, "key": spec_key(spec)}


@pytest.mark.parametrize("settings", [{"theta": "gone"}, {"colour": "red"}, {"jumping": "first"}])
def test_a_run_of_other_settings_than_todays_is_superseded(file, tmp_path, settings):
    changed(file, lambda run: [with_settings(run, **settings)])
    result = import_records(file, tmp_path)
    assert (result.superseded, result.imported, result.refused) == (4, [], [])
    assert not (tmp_path / "runs").exists()


def test_a_record_copied_to_other_seeds_is_refused(finished, file, tmp_path):
    def copies(run):
        return [{**run, "spec": {**run["spec"], "seed": run["spec"]["seed"] + number}} for number in (0, 10, 20, 30)]

    changed(file, copies)
    result = import_records(file, tmp_path / "there")
    assert (len(result.imported), len(result.refused)) == (4, 12)
    assert {reason for _, reason in result.refused} == {
        "its key is not that of its settings: it is the record of another run"
    }
    here, (first, second, *_) = tmp_path / "here", list(files_of(finished, "record.json"))
    shutil.copytree(finished, here)
    shutil.copy(here / "runs" / first / "record.json", here / "runs" / second)
    assert export_records(here, file).left_out == [(second, f"it is the run {first} in another's folder")]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"record": {}}, "not of the form of a run"),
        ({"record": None}, "neither a record nor the measurement"),
        ({"record": {"curves": [], "format": 99}}, "newer version of outland"),
        ({"record": {"curves": [{"epoch": 0}], "metric": 3}}, "not of the right kind"),
        ({"measured": {"../../x": {"values": {}}}}, "neither a record nor the measurement"),
        ({"measured": {"shift": {"values": {"aug_train": "near"}}}}, "values must be numbers by name"),
        ({"spec": 3}, "its settings are not those of a run"),
        ({"spec": []}, "its settings are not those of a run"),
        ({"key": "0"}, "its key is not that of its settings"),
    ],
)
def test_what_is_no_run_is_refused(file, tmp_path, change, sentence):
    changed(file, lambda run: [{**run, **change}])
    result = import_records(file, tmp_path)
    assert len(result.refused) == 4
    assert all(sentence in reason for _, reason in result.refused)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dataset", "../../x"),
        ("dataset", "/tmp/x"),
        ("domain", "../x"),
        ("kind", "..\x1b[2J"),
        ("preset", "../x"),
        ("method", "../evil.py:Evil"),
        ("method", "erm:../x"),
        ("seed", "\n1"),
        ("seed", [1]),
        pytest.param("seed", 10**249, id="seed-of-250-digits"),
        ("seed", 2**63),
        ("seed", -1),
        ("table", {"file": "x.csv"}),
        ("data_checksum", "ab"),
    ],
)
def test_no_word_of_the_file_becomes_a_path_or_code(file, tmp_path, name, value):
    def forged(run):
        spec = {**run["spec"], name: value}
        return [{**run, "spec": spec, "key": spec_key(spec)}]

    (tmp_path / "evil.py").write_text("raise SystemExit")
    changed(file, forged)
    result = import_records(file, tmp_path / "deep" / "there")
    assert (len(result.refused), result.imported) == (4, [])
    assert all(reason.isprintable() for _, reason in result.refused)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evil.py", "records.jsonl.xz"]


def test_results_of_another_version_are_not_mixed(finished, file, tmp_path, monkeypatch):
    def of_version_9(run):
        return [{**run, "record": {**run["record"], "platform": {**run["record"]["platform"], "results": "9"}}}]

    whole = file.read_bytes()
    changed(file, of_version_9)
    result = import_records(file, tmp_path)
    assert {reason for _, reason in result.refused} == {
        "its results are of version 9, and this outland gives version 1"
    }
    monkeypatch.setattr(transfer, "RESULTS", 2)
    with pytest.raises(OutlandError, match="of version 1, and this outland gives version 2"):
        export_records(finished, file)
    monkeypatch.setattr("outland.studies.record_file.RESULTS", 2)
    file.write_bytes(whole)
    with pytest.raises(OutlandError, match="holds results of version 1, and this outland gives version 2"):
        import_records(file, tmp_path)


def test_measurements_travel_and_one_without_a_model_is_trained_again_when_asked(motif, cache, tmp_path, monkeypatch):
    def measure(spec, folder, *rest):
        return Measurement({"aug_train": 0.1 + spec.seed, "aug_test": 0.2})

    study = replace(find_study("shift"), measure=measure)
    monkeypatch.setattr("outland.studies.shift.STUDY", study)
    only = ["Original/motif-base", "FLAG/motif-base"]
    cells = study.cells(2, TINY, only)
    here, there, file = tmp_path / "here", tmp_path / "there", tmp_path / "file"
    assert run_study(study, cells, here, device="cpu", cache=cache).states == {"done": 4}
    which = {"seeds": 2, "words": TINY, "only": only}
    assert export_records(here, file, ["shift"], **which).exported == 4
    import_records(file, there)
    assert study_outcome(study, cells, there).states == {"done": 4}
    assert Results.read(study, cells, there).measurements == Results.read(study, cells, here).measurements
    for path in (there / "runs").glob("*flag*/measured-shift.json"):
        path.unlink()
    assert study_outcome(study, cells, there).states == {"done": 2, "begun": 2}
    outcome = run_study(study, cells, there, device="cpu", cache=cache)
    assert outcome.states == {"done": 2, "failed": 2}
    assert "its record came from another machine, without the model" in outcome.failures[0][2]
    assert len(import_records(file, there).imported) == 2
    assert study_outcome(study, cells, there).states == {"done": 4}
    for path in (there / "runs").glob("*flag*/measured-shift.json"):
        path.unlink()
    run_study(study, cells, there, device="cpu", cache=cache)
    assert run_study(study, cells, there, retry=True, device="cpu", cache=cache).states == {"done": 4}
    assert import_records(file, there).already_here == 4  # trained again, it gave the same


def test_an_import_that_is_stopped_leaves_no_measurement_without_its_record(finished, tmp_path, monkeypatch):
    here, there, file = tmp_path / "here", tmp_path / "there", tmp_path / "file"
    shutil.copytree(finished, here)
    spec = cells_of(1, ROWS)[1][0].specs[0]
    RunStore(find_study("shift"), here).save_measurement(spec, Measurement({"aug_train": 0.1, "aug_test": 0.2}))
    export_records(here, file)

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as stopped:
        stopped.setattr(RunStore, "save_measurement", stop)
        with pytest.raises(KeyboardInterrupt):
            import_records(file, there)
    assert spec.slug in files_of(there, "record.json")
    assert spec.slug in import_records(file, there).imported
    assert files_of(there, "measured-*.json") == files_of(here, "measured-*.json")


def test_a_key_is_that_of_the_plain_settings_and_nothing_to_export_is_said(tmp_path):
    spec = RunSpec.make("motif", "aia:paper")
    assert spec_key(json.loads(json.dumps(spec.to_json()))) == spec.key
    with pytest.raises(OutlandError, match="no finished run of covariate with these settings in"):
        export_records(tmp_path, tmp_path / "file", ["covariate"])
