"""Places that have no locks, cannot be written to, are shared with others, or are taken away half-way."""

import errno
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from outland.errors import Busy
from outland.graphs import Cache
from outland.models import load_model, save_model
from outland.studies.search import Search
from outland.training import RunSpec, run
from tests.faults import children
from tests.faults.harness import begin, bounded, finish, status, told
from tests.graphs.test_cache import KEY, toy
from tests.studies.cases import SEARCHED, fake_run

pytestmark = pytest.mark.faults
SMALL = {"train": {"epochs": 1}, "data": {"limit": 24}, "backbone": {"width": 8, "layers": 2}}
FIT = ["fit", str(children.TABLE), "--target", "p_np", "--method", "erm", "--epochs", "1", "--device", "cpu"]
FIT += ["--set", "backbone.width=8", "--set", "backbone.layers=2", "--set", "data.limit=60"]


@pytest.fixture
def without_locks(monkeypatch):
    """A file system on which `flock` fails in the way given."""
    import fcntl

    def fails(number: int) -> None:
        def flock(*_: object) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(fcntl, "flock", flock)

    return fails


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EIO, errno.ENOSYS])
def test_a_file_system_without_locks(number, without_locks, motif, cache, tmp_path, monkeypatch, tally):
    """Runs, caches and searches work, and two at once still exclude each other."""
    own = Cache(shutil.copytree(cache.folder, tmp_path / "cache"))
    without_locks(number)
    spec = RunSpec.make("motif", "erm", changes=SMALL)
    whole = run(spec, tmp_path / "runs", device="cpu", cache=own)
    assert run(spec, tmp_path / "runs", resume=True, device="cpu", cache=own) == whole
    assert own.load_or_build(KEY, toy).parts.keys() == toy().parts.keys()
    from outland.storage.locks import is_held, locked

    with locked(tmp_path / "x.lock", timeout=0):
        assert is_held(tmp_path / "x.lock")
        with pytest.raises(Busy), locked(tmp_path / "x.lock", timeout=0):
            pass
    assert not is_held(tmp_path / "x.lock")
    pytest.importorskip("optuna", reason="Optuna is not installed: pip install 'outland[tune]'")
    monkeypatch.setattr("outland.studies.search.run", fake_run(lambda settings, epoch: settings.lr))
    search = Search(RunSpec.make("motif", "erm", changes=SEARCHED), 2, tmp_path / "tuning")
    search.run_trials()
    assert search.report()["finished"]
    tally("faults", "file systems without locks")


def test_a_lock_whose_owner_was_killed_is_broken(without_locks, tmp_path, tally):
    import socket

    without_locks(errno.ENOLCK)
    from outland.storage.locks import locked

    ended = subprocess.Popen(["true"])
    ended.wait()
    marker = tmp_path / "x.lock.owner"
    marker.write_text(f"{ended.pid}\n{socket.gethostname()}\n")
    with locked(tmp_path / "x.lock", timeout=5):
        pass
    marker.write_text("1\nanother-machine\n")
    with pytest.raises(Busy), locked(tmp_path / "x.lock", timeout=0):
        pass
    os.utime(marker, (0, 0))
    with locked(tmp_path / "x.lock", timeout=5):
        pass
    tally("faults", "file systems without locks")


def test_another_users_lock_in_a_shared_cache(tmp_path, monkeypatch, capsys, tally):
    shared, own = tmp_path / "shared", tmp_path / "own"
    monkeypatch.setenv("OUTLAND_CACHE", str(shared))
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(own))
    opened = os.open

    def denied(path, *rest, **named):
        if str(path).startswith(str(shared)) and str(path).endswith(".lock"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *rest, **named)

    monkeypatch.setattr(os, "open", denied)
    assert Cache().load_or_build(KEY, toy).parts.keys() == toy().parts.keys()
    assert len(list(own.glob("toy-*/state.json"))) == 1
    assert f"preparing in {own} instead" in " ".join(capsys.readouterr().err.split())
    tally("faults", "shared caches")


@pytest.fixture
def read_only(tmp_path):
    """Make a folder read-only, for root too."""
    mounted = []

    def mount(folder: Path) -> Path:
        words = ["mount", "--bind", str(folder), str(folder)]
        if subprocess.run(words, capture_output=True, check=False).returncode:
            pytest.skip("a file system cannot be mounted here: that needs to be root")
        mounted.append(folder)
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)


@pytest.mark.parametrize("listed", [True, False])
def test_a_read_only_shared_cache(listed, read_only, tmp_path, monkeypatch, tally):
    """What is in it is read; what is not goes to the next of the list, or to the user's own."""
    shared, own = tmp_path / "shared", tmp_path / "own"
    Cache(shared).store(KEY, toy())
    read_only(shared)
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(own))
    monkeypatch.setenv("OUTLAND_CACHE", os.pathsep.join([str(shared), str(own)] if listed else [str(shared)]))
    cache = Cache()

    def build():
        raise AssertionError("it is there")

    assert cache.load_or_build(KEY, build).parts.keys() == toy().parts.keys()
    assert list(cache.loaded) == [cache.path(KEY)]
    assert cache.path(KEY).parent == shared
    cache.load_or_build({**KEY, "seed": 2}, toy)
    assert [path.parent.name.split("-")[0] for path in own.glob("*/state.json")] == ["toy"]
    assert len(list(Cache().folders)) == 1 + listed
    tally("faults", "shared caches")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    from outland.estimators import GraphClassifier

    smiles = ["CCO", "CCN", "CCC", "c1ccccc1O", "c1ccccc1N", "c1ccccc1C"] * 4
    model = GraphClassifier("erm", domain="random", validation=0.4, epochs=1, backbone={"width": 8, "layers": 2})
    return model.fit(smiles, (["chain"] * 3 + ["ring"] * 3) * 4).save(tmp_path_factory.mktemp("tiny") / "model")


@pytest.mark.parametrize("exchange", [True, False])
def test_a_model_is_there_whenever_its_replacement_is_killed(exchange, tiny, tmp_path, monkeypatch, tally):
    """At every step, on file systems that can exchange two names and on others."""
    kills, step, ended = 0, 0, -1
    folder, loaded = Path(shutil.copytree(tiny, tmp_path / "model")), load_model(tiny)
    if not exchange:
        monkeypatch.setattr("outland.storage.folders._exchange", lambda one, other: False)
    while ended:
        step += 1
        child = os.fork()
        if not child:
            with suppress(BaseException):
                children.killed_at(step, save_model, loaded, folder, True)
                os._exit(0)
            os._exit(1)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert ended in (0, -9)
        kills += ended == -9
        assert load_model(folder).classes == ("chain", "ring"), step
    assert kills > 5
    tally("kills", "replacing a model", kills)


def test_a_second_fit_to_one_place_is_told_before_it_trains(tmp_path, tally):
    from outland.models.folder import reserved

    log, out = tmp_path / "log", tmp_path / "model"
    with reserved(out):
        words = [*FIT, "--out", str(out), "--runs", str(tmp_path / "runs")]
        assert status(children.command, words, log, tmp_path / "cache") == 2
    assert "another process is making the model" in told(log)
    assert not (tmp_path / "runs").exists()
    tally("faults", "two fits to one place")


def test_a_disk_that_fills_at_the_end_of_a_fit(small_disk, tmp_path, tally):
    """The run stays where it was trained, and the same command takes it from there."""
    disk, log = small_disk(16), tmp_path / "log"
    words = [*FIT, "--out", str(disk / "model"), "--runs", str(tmp_path / "runs")]
    assert status(children.command, words, log, tmp_path / "cache") == 2
    assert "No space left on device" in told(log)
    assert "the same command goes on" in " ".join(told(log).split())
    assert not [path for path in disk.iterdir() if path.is_dir()]
    trained = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/**/state.json")}
    assert len(trained) > 5
    small_disk(10_000, again=True)
    finish(children.command, words, log, tmp_path / "cache")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/**/state.json")} == trained
    assert load_model(disk / "model").classes
    tally("faults", "full disks")


def test_what_a_killed_arrival_left_is_removed(tmp_path, tally):
    from outland.studies.engines.archives import pack, unpack

    for name in ("spec.json", "model/state.json", "record.json"):
        path = tmp_path / "there" / "run" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    (tmp_path / "there" / "run" / "link").symlink_to("/etc/passwd")
    archive = pack(tmp_path / "there", ["run"])
    kills = 0
    for step in range(1, 30):
        child = begin(children.killed_at, step, unpack, archive, tmp_path / "here")
        child.join(60)
        kills += child.exitcode == -9
        if child.exitcode == 0:
            break
    with bounded():
        unpack(archive, tmp_path / "here")
    found = sorted(str(path.relative_to(tmp_path / "here")) for path in tmp_path.glob("here/**/*") if path.is_file())
    assert found == ["run/model/state.json", "run/record.json", "run/spec.json"]
    assert kills > 3
    tally("kills", "arrivals of runs", kills)
