"""What `benchmarks/shift.py` wrote."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[2] / "results" / "shift.json"


@pytest.fixture(scope="module")
def results():
    if not RESULTS.exists():
        pytest.skip("results/ is not part of the package's source distribution")
    return json.loads(RESULTS.read_text())


def test_gcs_grows_with_the_radius(results):
    proposition = results["proposition_4_1"]["found"]
    assert set(proposition) == {"normal", "ball"}
    for rows in proposition.values():
        values = [row["covariate"] for row in rows]
        assert len(values) >= 10
        assert all(later >= earlier - 1e-3 for earlier, later in pairwise(values))
        assert (values[0] < 0.01, values[-1] > 0.99) == (True, True)


@pytest.mark.parametrize(
    ("name", "paper"),
    [("motif/base", 0.557), ("motif/size", 0.522), ("cmnist/color", 0.490), ("molbbbp/scaffold", 0.419)],
)
def test_each_shift_stands_beside_its_null_and_the_paper(results, name, paper):
    measured = results[name]["found"]
    assert measured["paper"] == paper
    assert measured["null"]["mean"] < 0.02 < measured["accuracy"]["mean"]
    assert measured["covariate"]["mean"] > measured["null"]["mean"]
    assert len(measured["covariate"]["values"]) == measured["settings"]["trials"] >= 5
    assert [row["null"] for row in measured["by_epsilon"]] == sorted(row["null"] for row in measured["by_epsilon"])
