import re

from outland.report.study import report_name, write_report
from outland.report.study_notes import notices
from outland.report.study_page import study_page
from outland.report.study_text import latex, markdown
from outland.studies import find_study
from outland.studies.results import Results
from tests.report.cases import scores
from tests.studies.cases import made


def test_what_is_reduced_says_so_in_every_form(capsys, tmp_path):
    study = find_study("ablation")
    cells = study.cells(2, ["train.epochs=2"], ["AIA", "ERM"])
    results = made("ablation", scores, seeds=2, words=["train.epochs=2"])
    results.cells = cells
    setting = "Our numbers are not of the paper's setting (train.epochs=2, 2 seeds, not 10);"
    part = "This is a part of the study: 8 of its 20 cells."
    write_report(study, cells, tmp_path, ["train.epochs=2"])
    for text in (
        markdown(results),
        latex(results),
        study_page(results, {}).replace("&#39;", "'"),
        capsys.readouterr().out,
    ):
        assert setting in " ".join(text.split())
        assert part in " ".join(text.split())
    assert notices(made("ablation", scores)) == []
    assert "paper's setting" not in markdown(made("ablation", scores))


def test_only_the_whole_study_in_the_papers_setting_has_its_plain_name(tmp_path):
    study = find_study("ablation")

    def name(seeds=None, words=(), only=()):
        return report_name(Results(study, study.cells(seeds, words, only), words))

    assert name() == "ablation"
    assert name(only=["*"]) == "ablation"
    assert name(3) == "ablation-3-seeds"
    assert name(10) == "ablation-10-seeds"  # CMNIST has three
    tuned = Results(study, study.cells(), tuned=True)
    assert report_name(tuned) == "ablation-tuned"
    assert "(settings that searches have found)" in notices(tuned)[0]
    others = [
        name(only=["AIA"]),
        name(only=["ERM"]),
        name(words=["train.epochs=2"]),
        name(3, ["train.epochs=3"], ["AIA"]),
    ]
    assert [re.sub("[0-9a-f]{6}$", "#", other) for other in others] == [
        "ablation-part-#",
        "ablation-part-#",
        "ablation-changed-#",
        "ablation-3-seeds-part-changed-#",
    ]
    assert len(set(others)) == 4
    assert name(words=["train.epochs=2", "data.limit=9"]) == name(words=["data.limit=9", "train.epochs=2"])
    (tmp_path / "ablation.md").write_text("all of it")
    part = write_report(study, study.cells(only=["AIA"]), tmp_path)
    assert part.stem == others[0]
    assert (tmp_path / "ablation.md").read_text() == "all of it"
