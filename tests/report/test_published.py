import pytest

from outland.report.published import Published, leaderboard_value, paper_value
from outland.studies import find_study


def _published(name, selected, index=0):
    study = find_study(name)
    (cell,) = study.cells(1, only=[selected])
    quantity = study.quantities[index]
    paper = paper_value(study, cell.row, cell.column, quantity)
    return paper, leaderboard_value(cell.row, cell.column, quantity)


@pytest.mark.parametrize(
    ("name", "cell", "index", "paper", "board"),
    [
        ("covariate", "AIA (released)/motif-base", 0, (73.64, 5.15), None),
        ("covariate", "AIA (paper)/motif-base", 0, (73.64, 5.15), None),
        ("correlation", "AIA (paper)/cmnist-color", 0, (49.73, 1.70), None),
        ("covariate", "GSAT/motif-size", 0, (53.20, 8.35), (60.76, 5.94)),
        ("covariate", "M-Mixup/molhiv-scaffold", 0, (68.88, 2.63), (70.65, 1.86)),
        ("covariate", "CIGA/cmnist-color", 0, (32.22, 2.67), (32.22, 2.67)),
        ("covariate", "ERM/molbbbp-size", 0, (78.29, 3.76), None),
        ("correlation", "DIR/molhiv-size", 0, (66.78, 1.50), (74.39, 1.45)),
        ("correlation", "ERM/cmnist-color", 0, (42.87, 1.37), (42.90, 0.67)),
        ("backbones", "GAT AIA/molbbbp-size", 0, (78.49, 3.20), None),
        ("tu", "AIA/NCI1", 0, (84.12, 2.64), None),
        ("shift", "AIA/motif-size", 1, (0.098, 0.070), None),
        ("shift", "AIA/motif-size", 3, (0.098, 0.070), None),  # by the classifier that reads like the paper's
        ("diversity", "AIA/motif-base", 5, None, None),
        ("diversity", "AIA/motif-base", 2, (0.259, 0.106), None),
        ("cost", "AIA (released)/motif-base", 1, (6548, None), None),
        ("cost", "CAL/cmnist-color", 2, (2.244, None), None),
        ("ablation", "ERM/motif-base", 0, (68.66, 4.25), (63.80, 10.36)),
        ("ablation", "RDIA/motif-base", 0, None, None),
        ("sensitivity", "λ_s 0.5/motif-base", 0, None, None),
    ],
)
def test_published_numbers_stand_beside_their_cells(name, cell, index, paper, board):
    assert _published(name, cell, index) == (paper and Published(*paper), board and Published(*board))


def test_the_papers_improvement_is_that_of_its_table():
    assert _published("cost", "AIA (paper)/cmnist-color")[0].mean == pytest.approx(27.17, abs=0.005)
