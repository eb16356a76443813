import csv
import io
import re

import pytest
from markupsafe import escape

from outland.report.charts import Line, line_chart
from outland.report.figures import rescaled, row_colours
from outland.report.published import Published, in_paper, on_leaderboard
from outland.report.study import report_name, write_report
from outland.report.study_page import findings, page
from outland.report.study_text import csv_text, latex, markdown, number, terminal_tables
from outland.studies import STUDIES, find_study
from outland.studies.base import Measured
from outland.studies.results import Results
from tests.studies.test_results import made


def _scores(row, column, place):
    return 0.6 + (0.05 if row.label == "AIA" else 0.0) + 0.001 * place


def _published(name, cell, place=0):
    study = find_study(name)
    (found,) = study.cells(1, only=[cell])
    quantity = study.quantities[place]
    return in_paper(study, found.row, found.column, quantity), on_leaderboard(found.row, found.column, quantity)


@pytest.mark.parametrize(
    ("name", "cell", "place", "paper", "board"),
    [
        ("covariate", "AIA/motif-base", 0, (73.64, 5.15), None),
        ("covariate", "GSAT/motif-size", 0, (53.20, 8.35), (60.76, 5.94)),
        ("covariate", "M-Mixup/molhiv-scaffold", 0, (68.88, 2.63), (70.65, 1.86)),
        ("covariate", "CIGA/cmnist-color", 0, (32.22, 2.67), (32.22, 2.67)),
        ("covariate", "ERM/molbbbp-size", 0, (78.29, 3.76), None),
        ("correlation", "DIR/molhiv-size", 0, (66.78, 1.50), (74.39, 1.45)),
        ("correlation", "ERM/cmnist-color", 0, (42.87, 1.37), (42.90, 0.67)),
        ("backbones", "GAT AIA/molbbbp-size", 0, (78.49, 3.20), None),
        ("tu", "AIA/NCI1", 0, (84.12, 2.64), None),
        ("shift", "AIA/motif-size", 1, (0.098, 0.070), None),
        ("diversity", "AIA/motif-base", 2, (0.259, 0.106), None),
        ("cost", "AIA/motif-base", 1, (6548, None), None),
        ("cost", "CAL/cmnist-color", 2, (2.244, None), None),
        ("ablation", "ERM/motif-base", 0, (68.66, 4.25), (63.80, 10.36)),
        ("ablation", "RDIA/motif-base", 0, None, None),
        ("sensitivity", "λ_s 0.5/motif-base", 0, None, None),
    ],
)
def test_published_numbers_stand_beside_their_cells(name, cell, place, paper, board):
    found = _published(name, cell, place)
    assert found == (paper and Published(*paper), board and Published(*board))


def test_the_papers_improvement_is_that_of_its_table():
    assert _published("cost", "AIA/cmnist-color")[0].mean == pytest.approx(27.17, abs=0.005)


def test_numbers_are_written_as_people_write_them():
    assert number(Published(73.641, 5.149), 2) == "73.64 ± 5.15"
    assert number(Published(6548.0), 0) == "6548"
    assert number(None, 2) == "–"


def test_text_tables_have_all_three_sources():
    results = made("covariate", _scores)
    text = markdown(results)
    assert "| AIA | ours | **65.45 ± 0.29 ▲** |" in text
    assert "|  | paper | 73.64 ± 5.15 | 55.85 ± 7.98 |" in text
    assert "|  | GOOD | 63.80 ± 10.36 | 53.46 ± 4.08 | 27.82 ± 3.24 | – | – |" in text
    assert text.count("| paper |") == 17
    tex = latex(results)
    assert r"AIA & ours & \textbf{65.45 $\pm$ 0.29 $\uparrow$}" in tex
    assert tex.count(r"\\") == 1 + 17 + 17 + 8  # the heading, ours, the paper's, the leaderboard's
    assert r"\begin{tabular}{llrrrrrrr}" in tex
    ((table, words),) = terminal_tables(results)
    assert words.startswith("mean ± standard deviation over seeds; best bold, second underlined")
    assert table.row_count == 17 + 17 + 8


def test_csv_has_every_number():
    rows = list(csv.DictReader(io.StringIO(csv_text(made("cost", _scores, words=["train.epochs=2"])))))
    assert len(rows) == 4 * 7 * 3
    aia = next(row for row in rows if (row["row"], row["column"]) == ("AIA", "motif-base"))
    assert aia["quantity"] == "improvement"
    assert float(aia["mean"]) == pytest.approx(100 * 0.05 / 0.6045, abs=0.01)
    assert float(aia["p_holm"]) == pytest.approx(3 * 2 / 1024)
    assert aia["verdict"] == "better"
    assert aia["command"].startswith("outland train motif --method aia --kind covariate --recipe motif --set")


def test_latex_escapes():
    tex = latex(made("sensitivity", _scores, seeds=2, words=["train.x=a_{b}~^\\$"]))
    assert r"$\lambda$\_s 0.1 & ours" in tex
    assert "test score, \\%" in tex
    assert r"train.x=a\_\{b\}\textasciitilde{}\textasciicircum{}\textbackslash{}\$" in tex


@pytest.mark.parametrize("name", STUDIES)
def test_latex_has_only_what_every_latex_takes(name):
    tex = latex(made(name, _scores, seeds=2))
    assert tex.isascii()
    outside = "".join(re.sub(r"\\.", "", tex).split("$")[::2])  # what is not between dollars
    assert not set(outside) & set("<>_^#~")
    assert outside.count("{") == outside.count("}")
    if find_study(name).reference:
        assert "p $<$ 0.05" in tex


def test_what_is_reduced_says_so_in_every_form(capsys, tmp_path):
    study = find_study("ablation")
    cells = study.cells(2, ["train.epochs=2"], ["AIA", "ERM"])
    results = made("ablation", _scores, seeds=2, words=["train.epochs=2"])
    results.cells = cells
    setting = "Our numbers are not of the paper's setting (train.epochs=2, 2 seeds, not 10);"
    part = "This is a part of the study: 8 of its 20 cells."
    write_report(study, cells, tmp_path, ["train.epochs=2"])
    for text in (markdown(results), latex(results), page(results, {}).replace("&#39;", "'"), capsys.readouterr().out):
        assert setting in " ".join(text.split())
        assert part in " ".join(text.split())
    assert made("ablation", _scores).notices() == []
    assert "paper's setting" not in markdown(made("ablation", _scores))


def test_markdown_calls_italics_italics():
    text = markdown(made("ablation", _scores))
    assert "second in italics" in text
    assert "underlined" not in text


def test_only_the_whole_study_in_the_papers_setting_has_its_plain_name(tmp_path):
    study = find_study("ablation")

    def name(seeds=10, words=(), only=()):
        return report_name(Results(study, study.cells(seeds, words, only), words))

    assert name() == "ablation"
    assert name(only=["*"]) == "ablation"
    assert name(3) == "ablation-3-seeds"
    found = Results(study, study.cells(10), tuned=True)
    assert report_name(found) == "ablation-tuned"
    assert "(settings that searches have found)" in found.notices()[0]
    others = [
        name(only=["AIA"]),
        name(only=["ERM"]),
        name(10, ["train.epochs=2"]),
        name(3, ["train.epochs=3"], ["AIA"]),
    ]
    assert [re.sub("[0-9a-f]{6}$", "#", one) for one in others] == [
        "ablation-part-#",
        "ablation-part-#",
        "ablation-changed-#",
        "ablation-3-seeds-part-changed-#",
    ]
    assert len(set(others)) == 4
    assert name(10, ["train.epochs=2", "data.limit=9"]) == name(10, ["data.limit=9", "train.epochs=2"])
    (tmp_path / "ablation.md").write_text("all of it")
    part = write_report(study, study.cells(10, only=["AIA"]), tmp_path)
    assert part.stem == others[0]
    assert (tmp_path / "ablation.md").read_text() == "all of it"


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_a_page_even_of_half_a_table(name):
    def scores(row, column, place):
        return None if column.label == find_study(name).columns[-1].label and place else _scores(row, column, place)

    results = made(name, scores, seeds=2)
    if results.study.measure is not None:
        values = {quantity.name: 0.3 for quantity in results.study.quantities}
        results.measured = {cell.name: {0: Measured(values, [])} for cell in results.cells}
    text = page(results, {})
    assert str(escape(results.study.title)) in text
    assert "<svg" in text
    for cell in results.cells:
        assert cell.column.label in text
    assert "http://" not in text  # nothing is fetched
    assert "https://" not in text


def test_a_page_escapes_what_it_is_given():
    results = made("ablation", _scores, seeds=2, words=["train.x=<b>&"])
    results.problems.append("<script>alert(1)</script>")
    text = page(results, {})
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "train.x=&lt;b&gt;&amp;" in text


def test_findings_do_not_call_better_what_is_not_shown():
    lines = findings(made("ablation", _scores))
    assert lines[0] == "motif-base: AIA is better than ERM."
    lines = findings(made("ablation", lambda *rest: 0.5))
    assert lines[0] == "motif-base: no difference to ERM is shown."
    assert "better" not in " ".join(lines)


def test_aia_and_erm_keep_their_colours():
    many, few = find_study("covariate"), find_study("ablation")
    assert row_colours(many.rows, "ERM")["AIA"] == row_colours(few.rows, "ERM")["AIA"] == 0
    assert row_colours(many.rows, "ERM")["ERM"] == row_colours(few.rows, "ERM")["ERM"] == 1
    assert row_colours(many.rows, "ERM")["DIR"] is None
    assert sorted(row_colours(few.rows, "ERM").values()) == [0, 1, 2, 3, 4]


def test_charts_escape_and_stand_a_single_point():
    text = line_chart("a < b", [Line("x & y", [(1.0, 50.0)], 0)], "epoch")
    assert "a &lt; b" in text
    assert "x &amp; y" in text
    assert "nan" not in text


def test_captured_parts_are_stretched_within_a_graph():
    ends = [[0, 1], [1, 0], [1, 2], [2, 1]]
    found = rescaled({"ends": ends, "node": [0.4, 0.5, 0.6], "edge": [0.2, 0.2, 0.4, 0.4]})
    assert found["edge"] == [0.0, 0.0, 1.0, 1.0]
    assert found["node"] == pytest.approx([0.0, 0.5, 1.0])
    edges_alone = rescaled({"ends": ends, "node": [1.0, 1.0, 1.0], "edge": [0.2, 0.2, 0.4, 0.4]})
    assert edges_alone["node"] == [0.0, 1.0, 1.0]
    even = rescaled({"ends": ends, "node": [0.5, 0.6, 0.7], "edge": [0.3] * 4})
    assert even["edge"] == [0.3] * 4
