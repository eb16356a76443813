import os
import subprocess
import sys

import pytest

TINY = ["--set", "data.limit=48", "--set", "backbone.width=8", "--set", "train.epochs=2", "--seed", "3"]


@pytest.fixture
def outland(cache, tmp_path):
    def call(*words):
        environment = {**os.environ, "OUTLAND_CACHE": str(cache.folder), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
        command = [sys.executable, "-m", "outland", *words]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)

    return call


def test_train_writes_a_record_and_names_it(outland, tmp_path):
    done = outland("train", "motif", "--shift", "base", "--method", "aia", "--set", "method.gamma=0.5", *TINY)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no bars without a terminal
    (record,) = tmp_path.glob("runs/*/record.json")
    assert str(record.relative_to(tmp_path)) in done.stdout
    assert "ood_val+burn_in *" in done.stdout


@pytest.mark.parametrize(
    ("words", "sentences"),
    [
        (["train", "motiv"], ["unknown dataset 'motiv'", "Did you mean 'motif'?", "Valid: "]),
        (["train", "motif", "--method", "aai"], ["unknown method 'aai'", "'aia'", "erm"]),
        (["train", "motif", "--method", "aia:papr"], ["unknown preset of aia 'papr'", "'paper'", "rdia"]),
        (["train", "motif", "--shift", "colour"], ["unknown shift of motif 'colour'", "Valid: base, size"]),
        (["train", "motif", "--kind", "covariat"], ["Did you mean 'covariate'?"]),
        (["train", "motif", "--set", "method.gama=1"], ["unknown setting of method 'gama'", "Did you mean 'gamma'?"]),
        (["train", "motif", "--set", "methd.gamma=1"], ["unknown group of settings 'methd'", "'method'"]),
        (["train", "motif", "--set", "gamma"], ["write it as GROUP.NAME=VALUE"]),
        (["train", "motif", "--set", "method.gamma=big"], ["method.gamma takes a number, not 'big'"]),
        (["train", "motif", "--set", "train.epochs=2.5"], ["train.epochs takes a whole number"]),
        (["train", "motif", "--set", "backbone.kind=ginn"], ["Did you mean 'gin'?"]),
        (["train", "motif", "--set", "train.select=oracle"], ["unknown value of train.select 'oracle'"]),
        (["train", "motif", "--device", "tpu9"], ["unknown device 'tpu9'"]),
        (["train", "motif", "--sed", "1"], ["--sed", "Valid options: ", "--seed"]),
        (["trian"], ["'trian'", "Valid commands: ", "train"]),
        (["list", "method"], ["unknown list 'method'", "Did you mean 'methods'?"]),
    ],
)
def test_mistakes_get_a_sentence_and_status_2(outland, words, sentences):
    done = outland(*words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    for sentence in sentences:
        assert sentence in done.stderr


@pytest.mark.parametrize(
    ("what", "words"),
    [("datasets", ["motif", "base, size"]), ("methods", ["aia", "rdia", "NeurIPS"]), ("backbones", ["gcnii"])],
)
def test_lists(outland, what, words):
    done = outland("list", what)
    assert done.returncode == 0
    assert all(word in done.stdout for word in words)


def test_data_prepare_and_verify(outland):
    done = outland("data", "prepare", "motif", "--shift", "base")
    assert "train 18,000" in done.stdout
    done = outland("data", "verify", "motif", "--shift", "base")
    assert done.returncode == 0
    assert done.stdout.count("as published") == 5


def test_help_needs_no_heavy_import():
    heavy = ("torch", "torch_geometric", "numpy", "matplotlib")
    code = f"import sys, outland.cli; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_answers_at_once(outland):
    """The promise is half a second; the test leaves room for a busy machine."""
    import time

    started = time.perf_counter()
    assert outland("--help").returncode == 0
    assert time.perf_counter() - started < 3


def test_version(outland):
    from outland import __version__

    assert outland("--version").stdout.strip() == f"outland {__version__}"
