"""`outland study` and `outland tune`."""

import pytest

from outland.studies import STUDIES, find_study
from outland.training import Trainer
from tests.studies.cases import SETS


@pytest.mark.parametrize("name", STUDIES)
def test_dry_run_says_what_would_be_run(outland, name, tmp_path):
    status, out, err = outland("study", name, "--dry-run")
    assert status == 0, err
    study = find_study(name)
    cells = study.cells()
    runs = sum(len(cell.specs) for cell in cells)
    assert f"{len(cells)} cells, {runs:,} runs: {runs:,} waiting" in out
    assert all(row.label in out for row in study.rows)
    assert out.count("0/10") == sum(len(cell.specs) == 10 for cell in cells)
    assert not (tmp_path / "studies").exists()


def test_the_list_says_runs_and_hours(outland):
    status, out, _ = outland("study", "list")
    assert status == 0
    rows = {line.split("│")[1].strip(): line.split("│")[2:4] for line in out.splitlines() if "│" in line}
    assert int(rows["covariate"][0]) == 1254
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
    assert int(rows["all"][0]) == len(trained) + alone == 3398
    twenty = outland("study", "list", "--seeds", "20")[1]
    rows = {line.split("│")[1].strip(): line.split("│")[2:4] for line in twenty.splitlines() if "│" in line}
    assert (int(rows["covariate"][0]), int(rows["tu"][0])) == (2520, 360)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["study", "ablatoin"], "Did you mean 'ablation'"),
        (["study", "ablation", "--only", "x/y"], "unknown cell of the study ablation 'x/y'"),
        (["study", "ablation", "tu"], "'tu' is one word too many"),
        (["study", "export"], "name the file to write"),
        (["study", "export", "file", "ablatoin"], "Did you mean 'ablation'"),
        (["study", "export", "file", "ablation"], "no finished run of ablation with these settings in studies/runs"),
        (["study", "export", "file", "--only", "AIA"], "select runs of a study: name it after FILE"),
        (["study", "import"], "name the files to read"),
        (["study", "import", "file"], "there is no file file"),
        (["study", "import", "file", "--seeds", "2"], "an import takes all runs of a file"),
        (["study", "ablation", "--report"], "no run of the study ablation is done"),
        (["study", "ablation", "--seeds", "0"], "must be 1 to 10,000, not 0"),
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


def test_a_study_stopped_by_hand_says_how_to_go_on(motif, outland, monkeypatch):
    def stop(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "steps", stop)
    status, _, err = outland("study", "ablation", "--only", "ERM/motif-base", *SETS)
    assert status == 130
    assert "Stopped. The same command goes on from the last checkpoints." in err


def test_tune_says_what_it_found(motif, optuna, outland, tmp_path):
    words = ["tune", "motif", "--method", "erm", "--trials", "2", "--epochs", "1", "--limit", "48", "--device", "cpu"]
    status, out, _ = outland(*words, "--set", "backbone.width=8", "--out", str(tmp_path))
    assert status == 0
    assert "2 trials of at most 2: 2 complete" in out
    assert "best: --set method.lr=" in out
    assert "test" not in out.replace(str(tmp_path), "")
