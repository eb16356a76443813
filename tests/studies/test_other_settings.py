from outland.studies.runner import run_study
from tests.studies.cases import SETS, TINY, ablation_cells


def test_a_report_of_settings_that_were_not_run_names_those_that_were(motif, outland, cache, tmp_path):
    study, cells = ablation_cells("ERM/motif-base", "RDIA/motif-base")
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
