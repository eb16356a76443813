import re
import shlex
from pathlib import Path

import pytest

from outland.errors import OutlandError
from outland.studies import find_study
from outland.studies.base import Measurement, Study


def test_words_change_every_run_but_not_what_a_row_is_about():
    words = ["train.epochs=2", "data.limit=48", "backbone.width=8", "backbone.kind=gin"]
    for cell in find_study("backbones").cells(2, words):
        assert [spec.seed for spec in cell.specs] == [0, 1]
        assert {(spec.train.epochs, spec.data.limit, spec.backbone.width) for spec in cell.specs} == {(2, 48, 8)}
        assert cell.specs[0].backbone.kind == cell.row.group.lower()


@pytest.mark.parametrize(
    ("cell", "count"),
    [
        ("ERM/motif-base", 20),
        ("AIA (released)/molhiv-size", 20),
        ("AIA (paper)/motif-base", 10),
        ("VREx/molbbbp-size", 10),
        ("VREx/cmnist-color", 3),
        ("ERM/cmnist-color", 3),  # the column's number, where it is smaller
    ],
)
def test_rows_and_columns_may_have_seeds_of_their_own(cell, count):
    study = find_study("covariate")
    assert [spec.seed for spec in study.cells(only=[cell])[0].specs] == list(range(count))
    assert len(study.cells(5, only=[cell])[0].specs) == 5  # what is asked for wins


@pytest.mark.parametrize(
    ("only", "count"),
    [
        (["AIA"], 14),
        (["motif-base"], 18),
        (["motif"], 36),
        (["aia/MOTIF-base"], 2),
        (["AIA (paper)"], 7),
        (["*Mixup/mol*"], 8),
        (["AIA", "ERM"], 21),
        (["AIA/motif"], 4),
        (["AIA/motif", "AIA/motif-base", "ERM/cmnist"], 5),  # what any of them names, once
    ],
)
def test_only_keeps_rows_columns_cells_and_patterns(only, count):
    assert len(find_study("covariate").cells(1, only=only)) == count


def test_only_knows_labels_and_groups_too():
    backbones = find_study("backbones")
    assert {cell.row.name for cell in backbones.cells(1, only=["AIA"])} == {"GCN AIA", "GCNII AIA", "GAT AIA"}
    assert len(backbones.cells(1, only=["GCN/motif"])) == 8


def test_a_setting_that_only_some_rows_have_is_refused_with_a_way_out():
    study = find_study("ablation")
    with pytest.raises(OutlandError) as told:
        study.cells(1, ["method.gamma=0.5"])
    keep = "--only 'w/o Adv' --only 'w/o Sta' --only RDIA --only AIA"
    assert str(told.value) == f"method.gamma is not a setting of ERM: keep to rows that have it, as in {keep}"
    cells = study.cells(1, ["method.gamma=0.5"], shlex.split(keep)[1::2])
    assert {cell.specs[0].method_params.gamma for cell in cells} == {0.5}
    with pytest.raises(OutlandError, match="not a setting of ERM, IRM, GroupDRO and 12 other rows: keep"):
        find_study("covariate").cells(1, ["method.gamma=0.5"])
    with pytest.raises(OutlandError, match="unknown setting of method 'gama'"):
        study.cells(1, ["method.gama=0.5"])


@pytest.mark.parametrize(
    "plain",
    [
        {"values": {"full": "much"}},
        {"values": {"full": True}},
        {"values": {"full": None}},
        {"values": [0.5]},
        {"values": {}, "pictures": {"a": 1}},
        {"values": {}, "pictures": [1]},
        {"pictures": []},
        {"values": {}, "more": 1},
    ],
)
def test_measurements_have_their_types(plain):
    with pytest.raises(TypeError):
        Measurement(**plain)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"only": ["AIAA"]}, "Did you mean 'AIA'"),
        ({"only": [""]}, "--only is empty: name a ROW"),
        ({"only": ["AIA", "  "]}, "--only is empty: name a ROW"),
        ({"seeds": 0}, "number of seeds must be 1 to 10,000, not 0"),
        ({"words": ["train.epoch=2"]}, "Did you mean 'epochs'"),
        ({"words": ["epochs=2"]}, "write it as GROUP.NAME=VALUE"),
    ],
)
def test_mistakes_get_a_sentence(change, sentence):
    with pytest.raises(OutlandError, match=sentence):
        find_study("covariate").cells(**change)


def test_there_are_ten_folds_and_no_more():
    with pytest.raises(OutlandError, match="folds must be 1 to 10, not 11"):
        find_study("tu").cells(11)
    with pytest.raises(OutlandError, match="Did you mean 'ablation'"):
        find_study("ablaton")


GUIDE = Path(__file__).parents[2] / "CONTRIBUTING.md"


def test_the_guides_study_expands():
    block = re.search(r"```python\n(from outland\.studies\.base.*?)```", GUIDE.read_text(), re.S)
    names: dict = {}
    exec(block.group(1), names)
    study = names["STUDY"]
    assert isinstance(study, Study)
    cells = study.cells(2)
    assert len(cells) == 8
    assert cells[2].specs[0].method_params.drop == 0.05
