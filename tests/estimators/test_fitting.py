"""A table into a model that is assessed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace

import pytest
import torch

from outland.datasets import TableSettings
from outland.errors import OutlandError
from outland.estimators import fit
from outland.estimators.fitting import assess, reference_spec
from outland.methods import method_settings
from outland.models import evaluate_models, load_model, save_model
from outland.spec import RunSpec, load_splits
from outland.storage.snapshots import read_snapshot
from outland.training import RunRecord
from outland.training.run_folder import RunFolder
from tests.models.cases import TABLE

WORDS = ["train.epochs=5", "train.checkpoint_every=1", "backbone.width=8", "backbone.layers=3", "data.limit=90"]


def spec(method: str = "aia", *more: str, domain: str = "random", seed: int = 1) -> RunSpec:
    table = TableSettings(str(TABLE), target=("p_np",))
    return RunSpec.from_words("bbbp.csv", method, [*WORDS, *more], domain=domain, seed=seed, table=table)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Folder of the runs of a fit that nothing disturbs."""
    return tmp_path_factory.mktemp("fit") / "whole"


@pytest.fixture
def fitted_runs(whole, cache, quick_shift):
    """That fit; its runs are trained once."""
    return fit(spec(), whole, cache=cache)


def test_a_fit_is_two_runs_that_are_assessed(fitted_runs, whole, cache):
    result = fitted_runs
    records = [RunRecord.read(RunFolder(whole, one).record_path) for one in (spec(), reference_spec(spec()))]
    (held_out,) = result.model.assessment.of("test")
    assert held_out.score.value == pytest.approx(records[0].test_score, abs=1e-6)
    assert held_out.reference.value == pytest.approx(records[1].test_score, abs=1e-6)
    assert held_out.difference.value == pytest.approx(records[0].test_score - records[1].test_score, abs=1e-6)
    assert (held_out.target, held_out.part) == ("p_np", "test")
    (validation,) = result.model.assessment.of("val")
    assert validation.score.value == pytest.approx(records[0].selection[records[0].selected]["val"], abs=1e-6)
    assert (result.model.method.name, result.reference.method.name) == ("aia", "erm")
    assert result.reference.assessment is None
    assert 0 <= result.model.assessment.shift.gcs <= 1
    splits = load_splits(spec(), cache=cache)
    flags = result.model.distance.flags(result.model.predict(splits.part("test")).distances)
    assert result.model.assessment.share_far == flags.count("far") / len(splits["test"])


def test_erm_is_its_own_reference_and_may_be_left_out(tmp_path, cache, quick_shift):
    result = fit(spec("erm"), tmp_path, cache=cache)
    assert (result.reference, len(list(tmp_path.iterdir()))) == (None, 1)
    (score,) = result.model.assessment.of("test")
    assert (score.reference, score.difference) == (None, None)
    alone = fit(spec("vrex"), tmp_path, compare=False, cache=cache)
    assert (alone.reference, len(list(tmp_path.iterdir()))) == (None, 2)


def test_the_reference_differs_in_its_method_alone():
    ours = spec("aia:paper", "method.gamma=0.9", "train.batch_size=7", seed=4)
    reference = reference_spec(ours)
    assert (reference.method, reference.preset, reference.code) == ("erm", "", "")
    assert asdict(reference.method_params) == asdict(spec("erm").method_params)
    for name in ("dataset", "domain", "kind", "backbone", "train", "data", "seed", "table"):
        assert getattr(reference, name) == getattr(ours, name), name
    assert reference.key == spec("erm", "train.batch_size=7", seed=4).key  # what `outland train` would name it


def test_finished_runs_are_taken_as_they_are(fitted_runs, whole, cache, monkeypatch):
    monkeypatch.setattr("outland.training.runs.Training", lambda *_, **__: pytest.fail("it trained again"))
    again = fit(spec(), whole, cache=cache)
    assert again.model.assessment == fitted_runs.model.assessment
    assert all(
        torch.equal(ours, theirs)
        for ours, theirs in zip(
            again.model.method.state_dict().values(), fitted_runs.model.method.state_dict().values(), strict=True
        )
    )


def test_a_fit_that_is_killed_goes_on_and_gives_the_same_bytes(fitted_runs, whole, tmp_path, cache):
    words = [word for setting in WORDS for word in ("--set", setting)]
    command = [sys.executable, "-m", "outland", "fit", str(TABLE), "--target", "p_np", "--domain", "random", *words]
    command += ["--seed", "1", "--runs", str(tmp_path / "killed"), "--out", str(tmp_path / "model")]
    environment = {**os.environ, "OUTLAND_CACHE": str(cache.folder), "OMP_NUM_THREADS": "1"}
    kills = 0
    for one, epoch in ((spec(), 2), (spec(), 4), (reference_spec(spec()), 3)):
        checkpoints = RunFolder(tmp_path / "killed", one).path / "checkpoints"
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None:
            if (checkpoints / f"epoch-{epoch:05d}").exists():
                process.send_signal(signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.002)
        process.wait()
    assert kills == 3
    assert not (tmp_path / "model").exists()
    resumed = fit(spec(), tmp_path / "killed", cache=cache)
    assert resumed.model.assessment == fitted_runs.model.assessment
    for one in (spec(), reference_spec(spec())):
        ours, theirs = (
            (RunFolder(folder, one).path / "model" / "tensors.safetensors").read_bytes()
            for folder in (tmp_path / "killed", whole)
        )
        assert ours == theirs
    folders = [save_model(result.model, tmp_path / name) for name, result in (("a", resumed), ("b", fitted_runs))]
    ours, theirs = ((folder / "tensors.safetensors").read_bytes() for folder in folders)
    assert ours == theirs
    assert read_snapshot(folders[0]).values["assessment"] == read_snapshot(folders[1]).values["assessment"]


def test_what_cannot_be_measured_is_left_out(fitted_runs, cache):
    splits = load_splits(spec(), cache=cache)
    few = replace(splits, parts={**splits.parts, "test": splits["test"][:9]})
    assessment = assess([replace(fitted_runs.model, distance=None)], few, seed=1)
    assert (assessment.shift, assessment.share_far) == (None, None)
    assert assessment.of("test")[0].too_few.startswith("too few to judge (9 rows")
    assert assessment.of("test") == evaluate_models([fitted_runs.model], few.part("test"), "test", 1)


def test_the_model_of_a_fit_is_that_of_its_run(fitted_runs, whole):
    run_model = load_model(RunFolder(whole, spec()).path)
    assert replace(fitted_runs.model, assessment=None).calibration == run_model.calibration
    assert run_model.assessment is None
    assert run_model.spec == fitted_runs.model.spec == spec()


def test_the_reference_starts_from_the_same_recipe():
    bare = reference_spec(spec(), recipe=None)
    assert bare.method_params == method_settings("erm", {})
    assert reference_spec(spec()).method_params == spec("erm").method_params


def test_a_run_whose_model_is_gone_is_trained_again(whole, tmp_path, cache, quick_shift):
    first = fit(spec("erm"), tmp_path, cache=cache)
    folder = RunFolder(tmp_path, spec("erm")).path
    weights = (folder / "model" / "tensors.safetensors").read_bytes()
    shutil.rmtree(folder / "model")
    again = fit(spec("erm"), tmp_path, cache=cache)
    assert again.model.assessment == first.model.assessment
    assert (folder / "model" / "tensors.safetensors").read_bytes() == weights


def test_a_model_of_another_run_is_not_taken(tmp_path, cache, quick_shift):
    fit(spec("erm"), tmp_path, cache=cache)
    ours, other = (RunFolder(tmp_path, spec("erm", seed=seed)).path for seed in (1, 2))
    shutil.copytree(ours, other)
    with pytest.raises(OutlandError, match="holds the model of another run: delete it, or choose another --runs"):
        fit(spec("erm", seed=2), tmp_path, cache=cache)
