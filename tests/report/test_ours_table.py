import json
import lzma
import statistics

import pytest

from outland.report.ours_table import BEGIN, END, ours_table, with_table
from outland.report.results_page import with_runs
from tests.report.test_results_page import ROOT
from tests.studies.cases import made

SCORES = {"ERM": 0.5, "DropEdge": 0.8, "CAL": 0.9, "Evidence": 0.7}


def results(scores=SCORES):
    def score(row, column, seed):
        if row.label not in scores or (row.label == "CAL" and column.label == "motif-base" and seed):
            return None
        return scores[row.label] + 0.01 * (seed % 2)

    return with_runs(made("covariate", score, seeds=None, newer=True))


def masks():
    truth = {"test": {"rocauc": 0.95, "precision_at_k": 0.5}}
    return made("masks", lambda row, column, seed: 0.5, newer=True, masks=truth)


def test_a_line_has_erm_the_best_complete_other_row_and_ours():
    lines = ours_table(results(), masks(), "Evidence").replace("\N{NO-BREAK SPACE}", " ").splitlines()
    assert lines[0] == "|  | ERM | best other row | Evidence | ROC-AUC of its mask |"
    assert lines[2] == "| motif-base | 50.5 ± 0.5 | 80.5 ± 0.5 (DropEdge) | 70.5 ± 0.5 | 0.950 ± 0.000 |"
    assert lines[3] == "| motif-size | 50.5 ± 0.5 | 90.5 ± 0.5 (CAL) | 70.5 ± 0.5 | 0.950 ± 0.000 |"
    assert lines[4].startswith("| cmnist-color | 50.3 ± 0.5 |")
    assert lines[4].endswith(" | – |")
    assert len(lines) == 2 + 7


def test_where_there_are_no_other_runs_there_is_a_dash():
    lines = ours_table(results({"Evidence": 0.7}), masks(), "Evidence").replace("\N{NO-BREAK SPACE}", " ").splitlines()
    assert lines[2] == "| motif-base | – | – | 70.5 ± 0.5 | 0.950 ± 0.000 |"


def test_only_what_stands_between_the_marks_is_written():
    page = f"a\n{BEGIN}old{END}\nb"
    table = ours_table(results(), masks(), "Evidence")
    assert with_table(page, results(), masks()) == f"a\n{BEGIN}{table}{END}\nb"
    assert with_table("a\nb", results(), masks()) == "a\nb"


def selected_scores(file: str, column: str = "motif-size", method: str = "evidence", **settings) -> list[dict]:
    """Scores of the selected epochs, of a method's first ten runs on a column with these settings."""
    if not (ROOT / "results").is_dir():
        pytest.skip("results/ is not part of the package's source distribution")
    text = lzma.decompress((ROOT / "results" / "records" / file).read_bytes()).decode()
    records = [json.loads(line) for line in text.splitlines()[1:]]
    where = {"method": method, **dict(zip(("dataset", "domain"), column.split("-"), strict=True))}
    found = [plain for plain in records if where.items() <= plain["spec"].items() and plain["spec"]["seed"] < 10]
    found = [plain["record"] for plain in found if settings.items() <= plain["spec"]["method_params"].items()]
    return [record["selection"][record["selected"]] for record in found]


def test_what_the_page_says_of_two_seeds_of_motif_size_is_so():
    selected = selected_scores("covariate.jsonl.xz")
    test = sorted(row["test"] for row in selected)
    assert len(test) == 10
    assert test[1] < statistics.median(test) - 0.1 < test[2]
    validation = [row["val"] for row in selected]
    assert max(validation) - min(validation) < 0.002


WITH_WALKS = {"walks": 6, "gate": True, "readout": "max"}


@pytest.mark.parametrize("without", [{"layer": False}, {"whole": 1.0}, {"mix": 0.0}])
def test_none_of_the_runs_without_a_part_is_weak(without):
    test = [row["test"] for row in selected_scores("ours.jsonl.xz", **WITH_WALKS, **without)]
    assert len(test) == 10
    assert min(test) > 0.92


def mean(file: str = "ours.jsonl.xz", column: str = "motif-size", method: str = "evidence", **settings) -> float:
    return statistics.mean(row["test"] for row in selected_scores(file, column, method, **settings))


def test_gate_and_walks_carry_it_on_motif_size():
    ours = mean("covariate.jsonl.xz")
    gateless = mean(gate=False, layer=True)
    walkless = mean(walks=0, readout="max")
    maximum, plain = (mean(gate=False, layer=False, readout=readout) for readout in ("max", "backbone"))
    assert plain < maximum < gateless < walkless < ours
    assert mean(readout="backbone", walks=6, gate=True) == pytest.approx(ours, abs=0.02)


@pytest.mark.parametrize("without", [{"gate": False}, {"whole": 1.0}, {"mix": 0.0}, {"layer": False}])
def test_no_part_is_worth_anything_on_molbbbp_scaffold(without):
    parts = {"gate": True, "layer": True, "whole": 0.5, "mix": 0.5, "walks": 0, "readout": "backbone"}
    gain = mean(column="molbbbp-scaffold", **{**parts, **without}) - mean("covariate.jsonl.xz", "molbbbp-scaffold")
    assert -0.001 < gain < 0 if "layer" in without else gain > 0


def test_closed_walks_are_enough_on_motif_base():
    ceiling = mean("covariate.jsonl.xz", "motif-base")
    parts = {**WITH_WALKS, "layer": True, "whole": 0.5, "mix": 0.5}
    without = [{"gate": False}, {"layer": False}, {"whole": 1.0}, {"mix": 0.0}, {"readout": "backbone"}]
    walking = [mean(column="motif-base", **{**parts, **part}) for part in without]
    erm = {"walks": 6, "gate": False, "layer": False, "whole": 1.0, "mix": 0.0}
    plain, maximum = (mean(column="motif-base", **erm, readout=readout) for readout in ("backbone", "max"))
    assert min(*walking, maximum) == pytest.approx(ceiling - 0.01, abs=0.001)
    assert plain == pytest.approx(ceiling, abs=0.001)


def test_what_is_left_on_motif_base_without_closed_walks():
    walkless = mean(column="motif-base", walks=0)
    assert mean("covariate.jsonl.xz", "motif-base") - walkless == pytest.approx(0.04, abs=0.005)
    erm = mean("covariate.jsonl.xz", "motif-base", "erm")
    assert walkless - erm == pytest.approx(0.19, abs=0.005)
    assert erm - mean("ours.jsonl.xz", "motif-base", "erm") == pytest.approx(0.05, abs=0.005)
