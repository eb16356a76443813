"""What `results/remarks.toml` says of records and of published numbers is so."""

import pytest

from outland.report.published import leaderboard_value, paper_value
from outland.studies import find_study
from tests.report.committed_results import first_ten


@pytest.mark.parametrize("column", ["motif-base", "motif-size", "cmnist-color", "molhiv-scaffold", "molhiv-size"])
def test_vrex_of_good_is_within_its_deviation_of_erm(column):
    study = find_study("covariate")
    erm, vrex = (study.cells(1, only=[f"{row}/{column}"])[0] for row in ("ERM", "VREx"))
    quantity = study.quantities[0]
    paper = [paper_value(study, cell.row, cell.column, quantity) for cell in (erm, vrex)]
    board = [leaderboard_value(cell.row, cell.column, quantity) for cell in (erm, vrex)]
    for of_erm, of_vrex in (paper, board):
        assert of_erm is not None
        assert of_vrex is not None
        assert of_vrex.std is not None
        assert abs(of_vrex.mean - of_erm.mean) < of_vrex.std


def losses(column: str, term: str) -> list[list[float]]:
    """A term of VREx's loss by epochs, of ten runs on the column."""
    return [
        [epoch["loss"][f"risk.{term}"] for epoch in record.curves]
        for record in first_ten("covariate", f"VREx/{column}")
    ]


def test_the_risk_of_vrex_rises_on_molhiv_as_its_penalty_falls():
    for risk, variance in zip(losses("molhiv-scaffold", "risk"), losses("molhiv-scaffold", "variance"), strict=True):
        assert risk[-1] > 1.5 * min(risk[:10])
        assert variance[-1] < 0.1 * variance[0]


def test_the_risk_of_vrex_still_falls_at_the_end_on_motif_base():
    for risk in losses("motif-base", "risk"):
        assert sum(risk[-5:]) < sum(risk[-25:-20])
