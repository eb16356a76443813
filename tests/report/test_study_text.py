import csv
import io
import re

import pytest

from outland.report.published import Published
from outland.report.study_text import csv_text, format_value, latex, markdown
from outland.studies import STUDIES, find_study
from tests.report.cases import scores
from tests.studies.cases import made


def test_numbers_are_written_as_people_write_them():
    assert format_value(Published(73.641, 5.149), 2) == "73.64 ± 5.15"
    assert format_value(Published(6548.0), 0) == "6548"
    assert format_value(None, 2) == "–"


def test_text_tables_have_all_three_sources():
    results = made("covariate", scores)
    text = markdown(results)
    assert "| AIA (released) | ours | **65.45 ± 0.29 ▲** |" in text
    assert "|  | paper | 73.64 ± 5.15 | 55.85 ± 7.98 |" in text
    assert "|  | GOOD | 63.80 ± 10.36 | 53.46 ± 4.08 | 27.82 ± 3.24 | – | – |" in text
    assert text.count("| paper |") == 18
    tex = latex(results)
    assert r"AIA (released) & ours & \textbf{65.45 $\pm$ 0.29 $\uparrow$}" in tex
    assert tex.count(r"\\") == 1 + 18 + 18 + 8  # the heading, ours, the paper's, the leaderboard's
    assert r"\begin{tabular}{llrrrrrrr}" in tex


def test_planned_tests_and_rates_of_error_are_said():
    text = markdown(made("covariate", scores, seeds=None))
    assert "Planned test of AIA (released) against ERM: motif-base +5.00 (20 seeds, p = 1e-05);" in text
    assert (
        "Planned test of AIA (released) against the best rival: motif-base +5.00 to ERM (20 seeds, p = 1e-05);" in text
    )
    assert "cmnist-color +5.00 (3 seeds, p = 0.25)" in text
    assert "a chance of at most 5%, in any of the 7 at most 35%" in text
    assert "chosen by its test mean, which favours it" in text
    assert "Planned" not in markdown(made("ablation", scores))


def test_csv_has_every_number():
    rows = list(csv.DictReader(io.StringIO(csv_text(made("cost", scores, words=["train.epochs=2"])))))
    assert len(rows) == 18 * 7 * 3
    aia = next(row for row in rows if (row["row"], row["column"]) == ("AIA (released)", "motif-base"))
    assert aia["quantity"] == "improvement"
    assert float(aia["mean"]) == pytest.approx(100 * 0.05 / 0.6045, abs=0.01)
    assert float(aia["p_holm"]) == pytest.approx(17 * 2 / 1024)
    assert aia["verdict"] == "better"
    assert aia["command"].startswith("outland train motif --method aia:released --kind covariate --set")


def test_latex_escapes():
    tex = latex(made("sensitivity", scores, seeds=2, words=["train.x=a_{b}~^\\$"]))
    assert r"$\lambda$\_s 0.1 & ours" in tex
    assert "test score, \\%" in tex
    assert r"train.x=a\_\{b\}\textasciitilde{}\textasciicircum{}\textbackslash{}\$" in tex


@pytest.mark.parametrize("name", STUDIES)
def test_latex_has_only_what_every_latex_takes(name):
    tex = latex(made(name, scores, seeds=2))
    assert tex.isascii()
    outside = "".join(re.sub(r"\\.", "", tex).split("$")[::2])  # what is not between dollars
    assert not set(outside) & set("<>_^#~")
    assert outside.count("{") == outside.count("}")
    if find_study(name).reference:
        assert "p $<$ 0.05" in tex


def test_markdown_calls_italics_italics():
    text = markdown(made("ablation", scores))
    assert "second in italics" in text
    assert "underlined" not in text


def test_seconds_are_not_tested_and_parameters_have_no_spread_either():
    results = made("cost", scores)
    for cell in results.cells:
        if cell.row.label == "CAL":
            records = results.records[cell.name]
            results.records[cell.name] = {
                seed: run.model_copy(update={"parameters": {"total": 1_700_000}}) for seed, run in records.items()
            }
    text = markdown(results).partition("## parameters, millions")[2]
    assert "| CAL | ours | _1.700_ | _1.700_ |" in text
    assert "the same for all seeds; best bold" in text
    assert "▼" not in text
    seconds = markdown(results).partition("## seconds a run")[2].partition("## ")[0]
    assert "| CAL | ours | 60.0 ± 0.0 |" in seconds
    assert "5835 | 5835" in seconds
    assert "mean ± standard deviation over seeds; best bold, second in italics." in seconds
