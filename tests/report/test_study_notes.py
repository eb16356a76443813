from outland.report.study_notes import missing_note, notices, power_note, sampling_notes, stand_in_note
from tests.report.cases import scores
from tests.studies.cases import made


def test_graphs_that_stand_in_for_the_published_are_named():
    def superpixels(row, column, place):
        return 0.5 if column.label == "cmnist-color" else None

    results = made("covariate", superpixels, data={"superpixels": "stand-in"})
    assert stand_in_note(results).startswith("cmnist-color: the graphs are a stand-in for the published superpixels")
    assert stand_in_note(made("covariate", superpixels, data={"superpixels": "published"})) == ""


def test_cells_of_which_runs_are_missing_are_named():
    def score(row, column, seed):
        is_there = row.label == "ERM" or (row.label == "Evidence" and column.label == "motif-size" and seed < 4)
        return 0.5 if is_there else None

    results = made("covariate", score, seeds=None, newer=True)
    quantity = results.study.quantities[0]
    assert missing_note(results, quantity) == "Of some cells runs are missing: Evidence on motif-size (4 of 10)."
    assert missing_note(made("covariate", lambda row, column, seed: 0.5, seeds=2), quantity) == ""


def test_columns_of_few_seeds_are_named():
    results = made("covariate", scores, seeds=None)
    note = power_note(results, results.study.quantities[0])
    assert note.startswith("With 3 seeds and 17 comparisons a column (cmnist-color), no difference can pass the test")
    assert notices(results) == []


def test_few_positives_are_said():
    data = {"class_counts": {"test": [3898, 63]}}
    results = made("ablation", lambda *rest: 0.6, seeds=3, metric="rocauc", data=data)
    assert sampling_notes(results)[-1] == (
        "molhiv-size: the test part has 63 positives and 3,898 negatives, so on other graphs of its kind the score of "
        "ERM could be anywhere from 52.4 to 67.2 (95%, Hanley and McNeil)."
    )
    assert sampling_notes(made("ablation", lambda *rest: 0.6, seeds=3)) == []
