"""A table into a model that is judged by folds and trained on all rows."""

import shutil
import signal
import time
from dataclasses import asdict

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from outland.datasets import TableSettings
from outland.errors import Busy, OutlandError
from outland.estimators import fit, fitting, jobs
from outland.estimators.fitting import default_seconds, method_spec
from outland.methods import method_settings
from outland.models import load_model, save_model
from outland.models.comparison import STACK
from outland.models.evaluation import auc
from outland.spec import RunSpec, load_rows
from outland.tables.folds import make_folds
from tests.conftest import make_fits_quick
from tests.faults.children import command
from tests.faults.harness import begin
from tests.models.cases import TABLE

WORDS = ["train.epochs=2", "backbone.width=8", "backbone.layers=3", "data.limit=60"]


def spec(method: str = "erm", *more: str, domain: str = "scaffold", seed: int = 1, **columns) -> RunSpec:
    table = TableSettings(str(TABLE), target=("p_np",), **columns)
    return RunSpec.from_words("bbbp.csv", method, [*WORDS, *more], domain=domain, seed=seed, table=table)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folder of a fit that nothing disturbs."""
    return tmp_path_factory.mktemp("fit")


@pytest.fixture(scope="module")
def fitted_all(runs, cache):
    """That fit, of all contenders."""
    with pytest.MonkeyPatch.context() as patch:
        make_fits_quick(patch)
        return fit(spec(), runs, minutes=5, folds=2, cache=cache)


def snapshots(folder):
    (own,) = [path for path in folder.iterdir() if path.is_dir()]
    return sorted(path.name for path in own.iterdir() if path.is_dir())


def test_contenders_are_judged_on_the_same_rows_and_all_rows_are_trained_on(fitted_all, runs, cache):
    model, comparison = fitted_all.model, fitted_all.model.assessment.comparison
    rows = load_rows(spec(), cache)
    assert {score.name for score in comparison.contenders} == {"forest", "boosting", "gp", "erm", "aia", STACK}
    assert (comparison.rows, comparison.folds) == (60, 6)  # few rows are divided three times
    assert (comparison.left_out, comparison.notes) == ({}, [])
    losses = [score.loss for score in comparison.contenders]
    assert losses == sorted(losses)
    assert comparison.contenders[0].name == comparison.delivered
    assert comparison.of(comparison.delivered).difference.value == 0
    assert model.training.graphs == {"train": 60}
    assert len(model.training_hashes) == len(rows.graphs.extra["hash"][rows["train"]].unique())
    weights = {score.name: score.weight for score in comparison.contenders if score.weight}
    assert sum(weights.values()) == pytest.approx(1.0)
    assert sum(model.weights) == pytest.approx(1.0)
    assert {member.name for member in model.members} == set(weights)
    assert 0 <= comparison.calibration_error < 0.5
    assert sum(each.rows for each in comparison.reliability) == 60


def test_a_fit_computes_with_one_thread_a_process(tmp_path, cache, monkeypatch):
    threads = []

    def judge(*rest):
        blas = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
        threads.append((torch.get_num_threads(), set(blas)))
        return original(*rest)

    original = fitting.judge
    monkeypatch.setattr(fitting, "judge", judge)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threadpool_limits(2, user_api="blas"):
            fit(spec(), tmp_path, method="gp", folds=2, workers=1, cache=cache)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert threads == [(1, {1})]


def test_scores_are_those_of_the_snapshots_on_held_out_rows(fitted_all, runs, cache):
    from outland.storage.snapshots import read_snapshot

    comparison, rows = fitted_all.model.assessment.comparison, load_rows(spec(), cache)
    folds = make_folds("scaffold", rows.graphs, rows["train"], 1, 2)
    (own,) = [path for path in runs.iterdir() if path.is_dir()]
    total, count = np.zeros(len(rows.graphs)), np.zeros(len(rows.graphs))
    for number, fold in enumerate(folds):
        outputs = read_snapshot(own / f"forest-fold{number}-seed0").tensors["outputs"]
        assert outputs.shape == (1, len(fold.held_out), 1)
        total[fold.held_out] += outputs[0, :, 0].numpy()
        count[fold.held_out] += 1
    own_rows = rows["train"].numpy()
    assert (count[own_rows] == 3).all()
    expected = auc(total[own_rows] / 3, rows.graphs.y[rows["train"], 0].numpy())
    assert comparison.of("forest").score.value == pytest.approx(expected, abs=1e-6)


def test_a_finished_fit_is_taken_as_it_is_and_goes_on_where_results_are_gone(
    fitted_all, runs, cache, monkeypatch, quick_fit
):
    before = snapshots(runs)
    shutil.rmtree(next(runs.glob("*/erm-fold2-*")))
    trained = []
    original = "outland.estimators.jobs.train_network"
    train = __import__("outland.estimators.jobs", fromlist=["train_network"]).train_network
    monkeypatch.setattr(original, lambda *given: trained.append(given) or train(*given))
    again = fit(spec(), runs, minutes=5, folds=2, cache=cache)
    assert len(trained) == 1
    assert snapshots(runs) == before
    first, second = fitted_all.model, again.model
    assert second.assessment.scores == first.assessment.scores
    assert second.weights == first.weights
    for ours, theirs in zip(first.members, second.members, strict=True):
        graphs = load_rows(spec(), cache).graphs
        assert torch.equal(ours.outputs(graphs), theirs.outputs(graphs))


def test_two_processes_give_what_one_gives(cache, tmp_path):
    models = [
        fit(spec("erm"), tmp_path / str(workers), method="erm", workers=workers, folds=2, cache=cache).model
        for workers in (1, 2)
    ]
    graphs = load_rows(spec(), cache).graphs
    assert torch.equal(*(model.predict(graphs).outputs for model in models))
    assert models[0].assessment.scores == models[1].assessment.scores


def test_one_method_may_be_taken_alone(cache, tmp_path, quick_fit):
    for method in ("forest", "vrex"):
        base = spec("erm" if method == "forest" else method)
        model = fit(base, tmp_path, method=method, minutes=5, folds=2, cache=cache).model
        comparison = model.assessment.comparison
        assert [score.name for score in comparison.contenders] == [method]
        assert comparison.reason == f"{method} was the only contender"
        assert {member.name for member in model.members} == {method}
        folder = save_model(model, tmp_path / f"model-{method}")
        loaded = load_model(folder)
        graphs = load_rows(spec(), cache).graphs
        assert torch.equal(loaded.predict(graphs).outputs, model.predict(graphs).outputs)
        assert loaded.assessment == model.assessment


def test_the_users_own_test_rows_are_neither_trained_on_nor_chosen_by(cache, tmp_path, quick_fit):
    lines = TABLE.read_text().splitlines()
    parts = [
        "split",
        *("test" if row % 4 == 0 else "val" if row % 4 == 1 else "train" for row in range(len(lines) - 1)),
    ]
    table = tmp_path / "t.csv"
    table.write_text("\n".join(f"{line},{part}" for line, part in zip(lines, parts, strict=True)) + "\n")
    settings = TableSettings(str(table), target=("p_np",), split="split")
    base = RunSpec.from_words("t", "erm", WORDS[:3], domain="column", table=settings)
    model = fit(base, tmp_path / "runs", method="forest", minutes=5, folds=2, cache=cache).model
    (score,) = model.assessment.scores
    rows = load_rows(base, cache)
    assert score.rows == len(rows["test"]) == 75
    assert model.training.graphs == {"train": 223, "test": 75}
    assert model.assessment.comparison.rows == 223
    outputs = model.predict(rows.part("test")).outputs[:, 0].double().numpy()
    assert score.score.value == pytest.approx(auc(outputs, rows.part("test").y[:, 0].numpy()), abs=1e-9)


@pytest.mark.parametrize("domain", ["size", "cluster", "random"])
def test_other_domains_hold_out_what_will_be_new(domain, cache, tmp_path, quick_fit):
    model = fit(spec(domain=domain), tmp_path, method="forest", minutes=5, folds=2, cache=cache).model
    comparison = model.assessment.comparison
    assert (comparison.rows, comparison.folds) == ((10, 1) if domain == "size" else (60, 6))


def test_a_fit_that_is_killed_goes_on_and_gives_the_same(cache, tmp_path):
    words = [word for setting in WORDS for word in ("--set", setting)]
    words = ["fit", str(TABLE), "--target", "p_np", *words, "--method", "erm", "--seed", "1", "--folds", "2"]
    words += ["--runs", str(tmp_path / "killed"), "--out", str(tmp_path / "model")]
    process = begin(command, words, tmp_path / "log", cache.folder)
    while process.is_alive() and not [*(tmp_path / "killed").glob("*/erm-fold*")]:
        time.sleep(0.005)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert not (tmp_path / "model").exists()
    folders = {name: tmp_path / name for name in ("killed", "whole")}
    models = [fit(spec(), folder, method="erm", folds=2, workers=1, cache=cache).model for folder in folders.values()]
    graphs = load_rows(spec(), cache).graphs
    assert torch.equal(*(model.predict(graphs).outputs for model in models))
    assert models[0].assessment.scores == models[1].assessment.scores


def test_a_second_process_is_sent_away(runs, fitted_all, cache):
    from filelock import FileLock

    (own,) = [path for path in runs.iterdir() if path.is_dir()]
    with FileLock(own / ".lock"), pytest.raises(Busy, match="another process is working in"):
        fit(spec(), runs, minutes=5, folds=2, cache=cache)


def test_a_network_alone_that_fails_says_why_each_time(tmp_path, cache, monkeypatch):
    def fails(*_):
        raise OutlandError("broken on purpose")

    monkeypatch.setattr(jobs, "train_network", fails)
    for _ in range(2):
        with pytest.raises(OutlandError, match=r"no contender could be trained: .*broken on purpose"):
            fit(spec(), tmp_path, method="erm", minutes=5, folds=2, workers=1, cache=cache)


def test_a_network_alone_that_there_is_no_time_for_is_a_sentence(tmp_path, cache):
    words = r"no contender could be trained: \d+ s of .* needed with it, and 0 s were left: give it more --minutes"
    with pytest.raises(OutlandError, match=words):
        fit(spec(), tmp_path, method="erm", minutes=0.01, folds=2, workers=1, cache=cache)


def test_time_follows_from_the_table():
    assert default_seconds(50) == default_seconds(200) == 20
    assert 100 < default_seconds(600) < 160
    assert default_seconds(2000) == default_seconds(100_000) == 300


def test_another_methods_spec_differs_in_the_method_alone():
    ours = spec("aia:paper", "method.gamma=0.9", "train.batch_size=7", seed=4)
    other = method_spec(ours, "erm")
    assert (other.method, other.preset, other.code) == ("erm", "", "")
    assert asdict(other.method_params) == asdict(spec("erm").method_params)
    for name in ("dataset", "domain", "kind", "backbone", "train", "data", "seed", "table"):
        assert getattr(other, name) == getattr(ours, name), name
    assert method_spec(ours, "erm", recipe=None).method_params == method_settings("erm", {})
