from outland.report.ours_table import BEGIN, END, ours_table, with_table
from tests.studies.cases import made

OTHERS = 0.4  # the other rows of the paper
SCORES = {"ERM": 0.5, "DropEdge": 0.8, "CAL": 0.9, "Evidence": 0.7, "LECI": 0.95}


def results(scores=SCORES, others=OTHERS):
    """Of CAL there is one run of CMNIST, of LECI one of Motif-base and none of others."""

    def score(row, column, seed):
        if (row.label, column.label) == ("CAL", "cmnist-color") and seed:
            return None
        if row.label == "LECI" and (column.label != "motif-base" or seed):
            return None
        score = scores.get(row.label, None if row.group else others)
        return None if score is None else score + 0.01 * (seed % 2)

    return made("covariate", score, seeds=None, newer=True).with_begun_rows()


def masks():
    truth = {"test": {"rocauc": 0.95, "precision_at_k": 0.5}}
    return made("masks", lambda row, column, seed: 0.5, newer=True, masks=truth)


def test_a_line_has_erm_the_best_other_row_of_a_whole_column_and_ours():
    lines = ours_table(results(), masks(), "Evidence").replace("\N{NO-BREAK SPACE}", " ").splitlines()
    assert lines[0] == "|  | ERM | best other row | Evidence | ROC-AUC of its mask |"
    assert lines[2] == "| motif-base | 50.5 ± 0.5 | 90.5 ± 0.5 (CAL) | 70.5 ± 0.5 | 0.950 ± 0.000 |"
    assert lines[4].startswith("| cmnist-color | 50.3 ± 0.5 | – |")
    assert lines[4].endswith(" | – |")
    assert len(lines) == 2 + 7


def test_where_there_are_no_other_runs_there_is_a_dash():
    lines = (
        ours_table(results({"Evidence": 0.7}, None), masks(), "Evidence")
        .replace("\N{NO-BREAK SPACE}", " ")
        .splitlines()
    )
    assert lines[2] == "| motif-base | – | – | 70.5 ± 0.5 | 0.950 ± 0.000 |"


def test_only_what_stands_between_the_marks_is_written():
    page = f"a\n{BEGIN}old{END}\nb"
    table = ours_table(results(), masks(), "Evidence")
    assert with_table(page, results(), masks()) == f"a\n{BEGIN}{table}{END}\nb"
    assert with_table("a\nb", results(), masks()) == "a\nb"
