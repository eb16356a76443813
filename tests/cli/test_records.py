"""`outland study export` and `outland study import`."""

import json

WORDS = ("--only", "ERM/motif-base", "--seeds", "2", "--epochs", "2", "--limit", "48", "--set", "backbone.width=8")


def test_records_move_from_one_folder_to_another(motif, outland, tmp_path):
    assert outland("study", "covariate", *WORDS, "--device", "cpu").returncode == 0
    done = outland("study", "export", "new/erm.jsonl.xz", "covariate", *WORDS)
    assert done.returncode == 0
    size = (tmp_path / "new" / "erm.jsonl.xz").stat().st_size
    assert done.stdout == f"new/erm.jsonl.xz: 2 runs, {size:,} bytes\n"
    there = ("--out", "there")
    assert outland("study", "import", "new/erm.jsonl.xz", *there).stdout == "new/erm.jsonl.xz: 2 imported\n"
    assert "2 runs: 2 done; nothing to train" in outland("study", "covariate", *WORDS, *there, "--dry-run").stdout
    assert outland("study", "covariate", *WORDS, *there, "--report").returncode == 0
    for page in (tmp_path / "studies").glob("covariate*"):
        assert (tmp_path / "there" / page.name).read_bytes() == page.read_bytes()
    path = next((tmp_path / "there" / "runs").glob("*/record.json"))
    path.write_text(json.dumps({**json.loads(path.read_text()), "metric": "rocauc"}))
    done = outland("study", "import", "new/erm.jsonl.xz", *there)
    assert "1 already here, 1 here with another result, which stays" in done.stdout
    assert f"other result: {path.parent.name}: our own stays" in done.stderr
    path.write_text("{}")
    done = outland("study", "import", "new/erm.jsonl.xz", *there)
    assert done.returncode == 1
    assert f"refused: {path.parent.name}: " in done.stderr
    done = outland("evaluate", str(path.parent), "motif")
    assert (done.returncode, "has the record of a run and no model" in done.stderr) == (2, True)


def test_a_report_takes_in_the_records_that_are_there(motif, outland, tmp_path):
    assert outland("study", "covariate", *WORDS, "--device", "cpu").returncode == 0
    assert outland("study", "export", "results/records/covariate.jsonl.xz", "covariate", *WORDS).returncode == 0
    said = "results/records/covariate.jsonl.xz: 2 imported\n"
    for number, what in enumerate(("--report", "--dry-run")):
        words = ("study", "covariate", *WORDS, "--out", f"there{number}", what)
        first, again = outland(*words), outland(*words)
        assert (first.returncode, first.stdout.startswith(said)) == (0, True)
        assert (again.returncode, again.stdout) == (0, first.stdout.removeprefix(said))
        assert len(list((tmp_path / f"there{number}" / "runs").glob("*/record.json"))) == 2
    for page in (tmp_path / "studies").glob("covariate*"):
        assert (tmp_path / "there0" / page.name).read_bytes() == page.read_bytes()
    none = outland("study", "covariate", *WORDS, "--out", "empty", "--dry-run", "--records", "elsewhere")
    assert "2 runs: 2 waiting" in none.stdout
    assert not (tmp_path / "empty").exists()


def test_a_report_takes_in_the_runs_that_it_shares_with_other_studies(motif, outland, tmp_path):
    others = (*WORDS, "--only", "IRM/motif-base")
    assert outland("study", "covariate", *others, "--device", "cpu").returncode == 0
    assert outland("study", "export", "results/records/covariate.jsonl.xz", "covariate", *others).returncode == 0
    for study, number in (("cost", 2), ("ablation", 2)):
        done = outland("study", study, *WORDS, "--out", study, "--report")
        assert done.stdout.startswith(f"results/records/covariate.jsonl.xz: {number} imported\n")
        assert len(list((tmp_path / study / "runs").glob("*/record.json"))) == number


def test_a_report_has_the_rows_since_the_paper_that_have_runs(motif, outland, tmp_path):
    newer = (*WORDS[2:], "--only", "PrunE/motif-base")
    refused = outland("study", "covariate", *newer, "--dry-run").stderr
    assert "'PrunE/motif-base' is of a method since the paper: add --all" in refused
    assert outland("study", "covariate", "--all", *newer, "--device", "cpu").returncode == 0
    done = outland("study", "covariate", *WORDS[2:], "--report")
    assert ", 2 done; 0 carried out now" in done.stdout
    (page,) = (tmp_path / "studies").glob("covariate-2-seeds-changed-*.md")
    rows = {line.split("|")[1].strip() for line in page.read_text().splitlines() if line.startswith("| ")}
    assert [row for row in rows if row.startswith(("since the paper", "ours"))] == ["since the paper PrunE"]
