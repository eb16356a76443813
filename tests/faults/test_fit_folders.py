"""The folder in which a fit keeps what was trained: what strangers put there neither counts nor ends in a traceback."""

import errno
import json
import os
import random
import shutil
from pathlib import Path

import pytest
from safetensors.torch import save

from outland.errors import Busy, OutlandError
from outland.estimators import fit
from outland.storage.snapshots import read_snapshot
from tests.conftest import make_fits_quick
from tests.estimators.test_fitting import spec
from tests.faults.fuzzing import fuzz, mutated_json, mutated_tensors
from tests.faults.hostile import sealed

pytestmark = pytest.mark.faults


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    make_fits_quick(monkeypatch)


@pytest.fixture(scope="module")
def fitted(cache, tmp_path_factory):
    """The folder of a fit of a network and how it ended: scores of held-out rows, and weights."""
    with pytest.MonkeyPatch.context() as patch:
        make_fits_quick(patch)
        return _fit(tmp_path_factory.mktemp("fitted"), cache)


def _fit(runs: Path, cache):
    model = fit(spec(), runs, method="erm", minutes=5, folds=2, cache=cache).model
    (folder,) = (path for path in runs.iterdir() if path.is_dir())
    scores = [(each.name, each.score.value, each.loss, each.epochs) for each in model.assessment.comparison.contenders]
    return folder, scores, [tensor.sum().item() for tensor in model.network.method.state_dict().values()]


def test_results_and_plans_of_strangers_do_not_count(fitted, cache, tmp_path, tally):
    """Copied from another fold, of other rows, not finite, links, and plans of anything: all is made again."""
    whole, scores, weights = fitted
    folder = Path(shutil.copytree(whole, tmp_path / whole.name))
    first, second = sorted(folder.glob("erm-fold*"))[:2]
    saved = read_snapshot(first)
    nan = saved.tensors["outputs"].clone()
    nan[0, 0] = float("nan")
    (plan,) = folder.glob("plan-*.json")
    plain = json.loads(plan.read_text())

    def replaced(path, values, tensors):
        shutil.rmtree(path)
        return sealed(path, values, tensors)

    def link():
        shutil.rmtree(first)
        first.symlink_to(whole / first.name)

    attacks = [
        lambda: (shutil.rmtree(second), shutil.copytree(first, second)),
        lambda: replaced(first, saved.values, {**saved.tensors, "outputs": nan}),
        lambda: replaced(first, saved.values, {**saved.tensors, "outputs": saved.tensors["outputs"][:, 1:].clone()}),
        lambda: replaced(first, {**saved.values, "seconds": "x"}, saved.tensors),
        lambda: replaced(first, {}, {}),
        link,
        *(lambda wrong=wrong: plan.write_text(json.dumps(wrong)) for wrong in ([], {}, {**plain, "folds": 10**9})),
        lambda: (plan.unlink(), plan.mkdir(), plan.rmdir()),
    ]
    for number, attack in enumerate(attacks):
        attack()
        assert _fit(tmp_path, cache)[1:] == (scores, weights), number
        assert not any(path.is_symlink() for path in folder.iterdir())
    tally("inputs", "folders of fits", len(attacks))


def test_a_fit_that_is_a_link(fitted, cache, tmp_path, tally):
    (tmp_path / fitted[0].name).symlink_to(fitted[0])
    with pytest.raises(OutlandError, match="symbolic link"):
        _fit(tmp_path, cache)
    tally("faults", "links inside runs")


def test_fuzzed_results_of_fits(fitted, cache, tmp_path, tally):
    """What is not refused is taken for a result, and the fit ends."""
    folder = Path(shutil.copytree(fitted[0], tmp_path / fitted[0].name))
    results = {path: read_snapshot(path) for path in sorted(folder.glob("erm-*"))}
    content = {path: save(saved.tensors) for path, saved in results.items()}

    def one(chance: random.Random):
        for path, saved in results.items():
            sealed(path, saved.values, content[path])
        path = chance.choice(sorted(results))
        values = mutated_json(chance, results[path].values) if chance.random() < 0.5 else results[path].values
        changed = mutated_tensors(chance, results[path].tensors) if values is results[path].values else None
        try:
            sealed(path, values, content[path] if changed is None else save(changed))
        except (UnicodeEncodeError, ValueError):  # NaN cannot be sealed
            sealed(path, {}, content[path])
        return lambda: _fit(tmp_path, cache)

    tally("inputs", "folders of fits", fuzz(60, one).inputs)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_fits_and_predictions_without_locks(number, fitted, cache, tmp_path, monkeypatch, tally):
    """They work, and two at once still exclude each other."""
    import fcntl

    from outland.storage.locks import locked
    from outland.tables.writing import written_table

    def flock(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    folder = Path(shutil.copytree(fitted[0], tmp_path / "runs" / fitted[0].name))
    assert _fit(tmp_path / "runs", cache)[1:] == fitted[1:]
    with locked(folder / ".lock", timeout=0), pytest.raises(Busy, match="another process is working in"):
        _fit(tmp_path / "runs", cache)
    with written_table(tmp_path / "out.csv", ["a"]) as write:
        write({"a": "1"})
        with pytest.raises(Busy, match="another process is writing"), written_table(tmp_path / "out.csv", ["a"]):
            pass
    assert (tmp_path / "out.csv").read_bytes() == b"a\r\n1\r\n"
    tally("faults", "file systems without locks", 2)
