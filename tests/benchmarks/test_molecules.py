"""What `benchmarks/molecules.py` wrote, its summary, and the tables of the docs made of it."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import molecules_summary as summary

ROOT = Path(__file__).parents[2]

FLAGS = {"near": [60, 0.1], "far": [40, 0.4]}


def made_up():
    """Two cuts of numbers, of which all have done both, and one cut of classes without chemprop."""

    def numbers(*values):
        return {str(cut): {"rmse": value, "coverage": 0.9, "error_by_flag": FLAGS} for cut, value in enumerate(values)}

    row = {"rocauc": 0.9, "ece": 0.04, "coverage": 0.86, "error_by_flag": {"near": [20, 0.2]}}
    return {
        "numbers": {"outland": numbers(1.0, 2.0), "forest": numbers(1.2, 2.4), "chemprop": numbers(0.9, 3.0)},
        "classes": {"outland": {"0": row}, "forest": {"0": {"rocauc": 0.93}}},
    }


def test_ranks_are_of_cuts_that_all_have_done():
    assert summary.common_cuts(made_up(), "numbers") == ["0", "1"]
    assert summary.common_cuts(made_up(), "classes") == []
    assert summary.ranks(made_up()) == {"outland": 1.5, "forest": 2.5, "chemprop": 2.0}
    assert summary.ranks({}) == {}


def test_differences_are_paired():
    cuts, mean, error = summary.behind(made_up(), "numbers", "forest")
    assert (cuts, mean, error) == (2, pytest.approx(-0.3), pytest.approx(0.1))
    assert summary.behind(made_up(), "classes", "forest")[:2] == (1, pytest.approx(0.03))
    assert summary.behind(made_up(), "classes", "chemprop") is None


def test_calibration_coverage_and_flags():
    assert summary.trust(made_up()) == {"ece": pytest.approx(0.04), "coverage": pytest.approx((0.9 + 0.9 + 0.86) / 3)}
    assert summary.by_flag(made_up(), "numbers") == {
        "near": (120, pytest.approx(0.1)),
        "far": (80, pytest.approx(0.4)),
    }
    assert "| numbers | – | 0.900 | 0.100 (120), 0.400 (80) |" in summary.trust_table(made_up()).splitlines()
    assert "| classes | ROC-AUC | 0.900 (1) | 0.930 (1) | – |" in summary.score_table(made_up()).splitlines()
    assert "| classes | +0.030 (1) | – |" in summary.paired_table(made_up()).splitlines()


@pytest.fixture(scope="module")
def results():
    return json.loads((ROOT / "benchmarks" / "molecules.json").read_text())


def test_the_docs_have_the_numbers_of_the_benchmark(results):
    lines = (ROOT / "docs" / "estimators.md").read_text().splitlines()
    for table in (summary.score_table, summary.paired_table, summary.trust_table):
        missing = [line for line in table(results).splitlines() if line not in lines]
        assert not missing


def test_contenders_were_given_the_same_rows(results):
    for of_set in results.values():
        for cut in of_set["forest"]:
            rows = {of_set[contender][cut]["rows"] for contender in of_set if cut in of_set[contender]}
            assert len(rows) == 1
