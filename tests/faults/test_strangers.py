"""Files and folders of strangers: pipes, devices, links, giants and lies where a file should be."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from outland.datasets.superpixels import read_published
from outland.errors import OutlandError
from outland.estimators import GraphClassifier
from outland.graphs import Cache
from outland.models import load_model
from outland.recipes import find_recipe
from outland.storage.snapshots import DamagedSnapshot, read_snapshot, write_snapshot
from outland.studies import find_study
from outland.studies.results import Results
from outland.studies.run_store import RunStore
from outland.studies.search import Search
from outland.studies.transfer import import_records
from outland.studies.tuned import with_tuned_settings
from outland.training import RunRecord, RunSpec, run
from outland.training.run_folder import RunFolder
from tests.faults.harness import PATIENCE, begin
from tests.faults.hostile import Tried, sealed
from tests.graphs.test_cache import KEY, toy
from tests.studies.cases import SEARCHED, fake_run

pytest.importorskip("optuna", reason="Optuna is not installed: pip install 'outland[tune]'")
pytestmark = pytest.mark.faults
SMILES = ["CCO", "CCN", "CCC", "c1ccccc1O", "c1ccccc1N", "c1ccccc1C"] * 4
LABELS = (["chain"] * 3 + ["ring"] * 3) * 4
TINY = {"train": {"epochs": 2, "checkpoint_every": 1}, "data": {"limit": 24}, "backbone": {"width": 8, "layers": 2}}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The folder of a model of twenty-four molecules."""
    model = GraphClassifier("erm", domain="random", validation=0.4, epochs=1, backbone={"width": 8, "layers": 2})
    return model.fit(SMILES, LABELS).save(tmp_path_factory.mktemp("tiny") / "model")


def leaves(value, path=()):
    """The paths of all texts in a JSON value."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[key], (*path, key))


def changed(value, path, new):
    """A copy of a JSON value with another value at a path."""
    copy = json.loads(json.dumps(value))
    place = copy
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = new
    return copy


def test_no_word_of_a_model_folder_is_run_as_code(tiny, tmp_path, monkeypatch, tally):
    """Each text in it becomes the name of a method's file; what a person then does must not import it."""
    (tmp_path / "hm").mkdir()
    (tmp_path / "hm" / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Evil: pass\n")
    monkeypatch.chdir(tmp_path)
    saved, tried = read_snapshot(tiny), Tried()

    def used():
        model = GraphClassifier.load(tmp_path / "model")
        grid = model.search_space()
        clone(model).set_params(method=model.method)
        GridSearchCV(model, grid, cv=2)
        return model.predict(["CCO"])

    assert len(list(leaves(saved.values))) > 20
    for path in leaves(saved.values):
        for name in ("hm/evil.py:Evil", f"{tmp_path}/hm/evil.py:Evil"):
            sealed(tmp_path / "model", changed(saved.values, path, name), saved.tensors)
            tried(used)
            assert not (tmp_path / "ran").exists(), path
    tally("inputs", "code in model folders", tried.inputs)


def test_a_journal_deletes_no_file(tmp_path, monkeypatch, tally):
    monkeypatch.setattr("outland.studies.search.run", fake_run(lambda settings, epoch: settings.lr))
    victim = tmp_path / "victim"
    names = [str(victim), "../../../victim", "../../victim", "../journal.log", ".", "", "a" * 31, 7, None, ["x"]]
    for number, name in enumerate(names):
        victim.write_text("mine")
        search = Search(RunSpec.make("motif", "erm", changes=SEARCHED), 2, tmp_path / str(number))
        with search.journal() as journal:
            journal.next_trial().set_user_attr("process", name)
        before = {path for path in tmp_path.rglob("*") if path.is_file()}
        search.run_trials()
        assert victim.read_text() == "mine", name
        assert before <= {path for path in tmp_path.rglob("*") if path.is_file()}
        assert search.report()["finished"]
    tally("inputs", "journals", len(names))


def checkpointed(out, cache):
    """A run that has two checkpoints and no record."""
    spec = RunSpec.make("motif", "erm", changes=TINY)
    kept, RunFolder.finish = RunFolder.finish, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(spec, out, device="cpu", cache=cache)
    finally:
        RunFolder.finish = kept
    return spec, RunFolder(out, spec)


def test_links_inside_a_run_are_not_followed(motif, cache, tmp_path, tally):
    spec, folder = checkpointed(tmp_path / "runs", cache)
    outside = tmp_path / "outside"
    for name in ("checkpoints", "model"):
        shutil.rmtree(folder.path / name, ignore_errors=True)
        for number in range(5):
            (outside / f"epoch-0000{number}").mkdir(parents=True, exist_ok=True)
        (outside / ".epoch-00001.0123456789ab").write_text("mine")
        before = sorted(outside.rglob("*"))
        (folder.path / name).symlink_to(outside)
        for how in ({"force": True}, {"resume": True}):
            with pytest.raises(OutlandError, match="symbolic link"):
                run(spec, tmp_path / "runs", device="cpu", cache=cache, **how)
            assert sorted(outside.rglob("*")) == before
        (folder.path / name).unlink()
    (folder.path / "record.json").symlink_to(tmp_path / "victim.json")
    run(spec, tmp_path / "runs", device="cpu", cache=cache, force=True)
    assert not (tmp_path / "victim.json").exists()
    folder.path.rename(outside / "run")
    before = sorted(outside.rglob("*"))
    folder.path.symlink_to(outside / "run")
    for how in ({"force": True}, {"resume": True}):
        with pytest.raises(OutlandError, match="symbolic link"):
            run(spec, tmp_path / "runs", device="cpu", cache=cache, **how)
    assert sorted(outside.rglob("*")) == before
    tally("faults", "links inside runs", 7)


def test_a_model_that_is_links(tiny, tmp_path, tally):
    for name in ("state.json", "tensors.safetensors", "README.md"):
        model = Path(shutil.copytree(tiny, tmp_path / name))
        (model / name).rename(tmp_path / f"real-{name}")
        (model / name).symlink_to(tmp_path / f"real-{name}")
        with pytest.raises(DamagedSnapshot, match="symbolic link"):
            load_model(model)
    run_folder = tmp_path / "run"
    run_folder.mkdir()
    (run_folder / "model").symlink_to(tiny)
    with pytest.raises(OutlandError, match="symbolic link"):
        load_model(run_folder)
    tally("faults", "links inside models", 4)


def readers(folder: Path, tiny: Path, finished: tuple) -> dict:
    """What reads each file that a stranger may have made: the path of the file, and the work."""
    study, cells, out, slug = finished
    model = Path(shutil.copytree(tiny, folder / "model"))
    study_out = Path(shutil.copytree(out, folder / "study"))
    record = study_out / "runs" / slug / "record.json"
    epoch = folder / "run" / "epoch-00001"
    write_snapshot(epoch, read_snapshot(tiny))
    cache = Cache(folder / "cache")
    cache.store(KEY, toy())
    search = Search(RunSpec.make("motif", "erm", changes=SEARCHED), 2, folder / "tuning")
    search.folder.mkdir(parents=True)

    def results():
        read = Results.read(study, cells, study_out)
        if not read.records:
            raise OutlandError("; ".join(read.problems))

    def journal():
        with search.journal() as opened:
            opened.next_trial()

    return {
        "state.json": (model / "state.json", lambda: load_model(model)),
        "tensors": (model / "tensors.safetensors", lambda: load_model(model)),
        "card": (model / "README.md", lambda: load_model(model)),
        "checkpoint": (epoch / "state.json", lambda: read_snapshot(epoch)),
        "cache": (cache.path(KEY) / "state.json", lambda: cache.load(KEY)),
        "record": (record, results),
        "one record": (record, lambda: RunRecord.read(record)),
        "journal": (search.folder / "journal.log", journal),
        "search": (search.folder / "search.json", lambda: with_tuned_settings(cells, folder / "tuning")),
        "recipe": (folder / "mine.toml", lambda: find_recipe(str(folder / "mine.toml"))),
        "export": (folder / "x.jsonl.xz", lambda: import_records(folder / "x.jsonl.xz", folder / "imported")),
        "superpixels": (folder / "s.pt", lambda: read_published(folder / "s.pt")),
    }


@pytest.fixture(scope="module")
def finished(motif, cache, tmp_path_factory):
    """A study with one finished run: the study, its cells, the folder, and the run's name."""
    from outland.studies.runner import run_study

    out, study = tmp_path_factory.mktemp("finished"), find_study("covariate")
    cells = study.cells(1, ["train.epochs=1", "data.limit=24", "backbone.width=8"], ["ERM/motif-base"])
    assert run_study(study, cells, out, device="cpu", cache=cache).states == {"done": 1}
    return study, cells, out, RunStore(study, out).run_folder(cells[0].specs[0]).path.name


def attempt(kind: str, tiny: Path, finished: tuple, folder: Path) -> None:
    """Put something odd where each file should be, and write down how long its reader took to refuse it."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    answers = {}
    for name, (path, work) in readers(folder, tiny, finished).items():
        path.unlink(missing_ok=True)
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "giant":
            with path.open("wb") as stream:
                stream.truncate(3 << 40)
        elif kind == "folder":
            path.mkdir()
        else:
            path.symlink_to({"zeros": "/dev/zero", "full": "/dev/full", "terminal": "/dev/tty"}[kind])
        started = time.monotonic()
        try:
            work()
            sentence = "nothing was refused"
        except OutlandError as problem:
            sentence = str(problem)
        answers[name] = [sentence, time.monotonic() - started]
        (folder / "answers.json").write_text(json.dumps(answers))
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        if name in ("state.json", "tensors", "card"):
            shutil.rmtree(folder / "model")
            shutil.copytree(tiny, folder / "model")


@pytest.mark.parametrize("kind", ["pipe", "zeros", "full", "giant", "folder"])
def test_what_is_no_file_is_refused_at_once(kind, tiny, finished, tmp_path, tally):
    """Pipes, devices, folders and sparse giants, in a process that can be ended if it hangs."""
    child = begin(attempt, kind, tiny, finished, tmp_path)
    child.join(PATIENCE)
    hangs = child.exitcode is None
    child.kill()
    child.join()
    answers = json.loads((tmp_path / "answers.json").read_text()) if (tmp_path / "answers.json").exists() else {}
    assert not hangs, f"after {list(answers)}"
    assert child.exitcode == 0, f"after {list(answers)}"
    assert len(answers) == 12
    for name, (sentence, seconds) in answers.items():
        assert sentence != "nothing was refused", name
        assert seconds < 10, name
    tally("inputs", "files that are none", len(answers))


def test_numbers_that_are_none_are_refused_at_load(tiny, tmp_path, tally):
    saved, tried = read_snapshot(tiny), Tried()
    floats = [name for name, tensor in saved.tensors.items() if tensor.is_floating_point() and tensor.numel()]
    assert len(floats) > 10
    for name in floats:
        if name == "reference.y":
            continue  # an unknown label
        for number in (torch.nan, torch.inf, -torch.inf):
            if name in ("reference.extra.descriptors", "conformal.scores") and number != number:
                continue  # a descriptor that RDKit could not compute, a label that is not known
            wrong = saved.tensors[name].clone()
            wrong.view(-1)[-1] = number
            sealed(tmp_path / "model", saved.values, {**saved.tensors, name: wrong})
            assert tried(lambda: load_model(tmp_path / "model")) is None, (name, number)
    assert tried.refused == tried.inputs
    tally("inputs", "numbers that are none", tried.inputs)


def test_variances_below_zero_are_refused_at_load(tiny, tmp_path, tally):
    saved = read_snapshot(tiny)
    (name, *_) = [name for name in saved.tensors if name.endswith("running_var")]
    sealed(tmp_path / "model", saved.values, {**saved.tensors, name: -saved.tensors[name]})
    with pytest.raises(DamagedSnapshot):
        load_model(tmp_path / "model")
    tally("inputs", "numbers that are none")
