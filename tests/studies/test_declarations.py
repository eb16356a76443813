import shlex
from dataclasses import replace

import pytest

from outland.errors import OutlandError
from outland.methods import METHODS, find_method
from outland.report.published import paper_table
from outland.studies import STUDIES, find_study
from outland.studies.base import Measurement, Row
from outland.studies.sensitivity import PRICES, SHARES
from outland.training import RunSpec

SIZES = {  # rows, columns, runs
    "covariate": (17, 7, 1190),
    "correlation": (10, 3, 300),
    "shift": (5, 4, 200),
    "diversity": (2, 1, 20),
    "ablation": (5, 4, 200),
    "sensitivity": (19, 3, 570),
    "backbones": (12, 4, 480),
    "tu": (6, 6, 360),
    "cost": (4, 7, 280),
    "masks": (9, 2, 180),
}


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_expands_to_its_cells(name):
    study = find_study(name)
    cells = study.cells()
    specs = [spec for cell in cells for spec in cell.specs]
    assert (len(study.rows), len(study.columns), len(specs)) == SIZES[name]
    assert len({cell.name for cell in cells}) == len(cells)
    # Where a dial of the study of sensitivity stands as in the recipe, the other's run is the same one.
    assert len({spec.slug for spec in specs}) == len(specs) - (30 if name == "sensitivity" else 0)
    assert all(spec.kind == cell.column.kind for cell in cells for spec in cell.specs)
    assert study.name == name


@pytest.mark.parametrize(
    ("name", "table"), [("covariate", "covariate_shift"), ("correlation", "correlation_shift"), ("tu", "tu")]
)
def test_rows_and_columns_are_the_papers(name, table):
    study, published = find_study(name), paper_table(table)
    assert [row.label for row in study.rows] == list(published["rows"])
    assert [column.label for column in study.columns] == published["columns"]


def test_backbones_are_the_papers():
    study, published = find_study("backbones"), paper_table("backbones")
    assert list(dict.fromkeys(row.group for row in study.rows)) == list(published["rows"])
    for kind, rows in published["rows"].items():
        assert [row.label for row in study.rows if row.group == kind] == list(rows)
    for cell in study.cells(1):
        assert cell.specs[0].backbone.kind == cell.row.group.lower()


def test_shift_and_diversity_are_the_papers():
    study, published = find_study("shift"), paper_table("gcs")
    assert [row.label for row in study.rows] == list(published["rows"])
    pairs = [f"{column.label}/{quantity.name}" for column in study.columns for quantity in study.quantities]
    assert pairs == published["columns"]
    study, published = find_study("diversity"), paper_table("diversity")
    assert [row.label for row in study.rows] == list(published["rows"])
    assert [quantity.name for quantity in study.quantities] == published["columns"]


def test_ablations_are_aia_with_one_part_changed():
    settings = {
        cell.row.label: cell.specs[0].method_params for cell in find_study("ablation").cells(1, only=["motif-base"])
    }
    whole = settings["AIA"]
    assert (whole.adversary, whole.stable) == ("learned", True)
    assert (settings["w/o Adv"].adversary, settings["w/o Adv"].stable) == ("none", True)
    assert (settings["w/o Sta"].adversary, settings["w/o Sta"].stable) == ("learned", False)
    assert (settings["RDIA"].adversary, settings["RDIA"].drop) == ("random", 0.2)
    assert all(settings[name].lr == whole.lr for name in ("w/o Adv", "w/o Sta", "RDIA"))


def test_dials_turn_one_at_a_time():
    cells = find_study("sensitivity").cells(1, only=["molhiv-size"])
    shares = [cell.specs[0].method_params for cell in cells if cell.row.group == "λ_s"]
    prices = [cell.specs[0].method_params for cell in cells if cell.row.group == "γ"]
    assert tuple(one.lambda_s for one in shares) == SHARES
    assert {one.gamma for one in shares} == {1.5}
    assert tuple(one.gamma for one in prices) == PRICES
    assert {one.lambda_s for one in prices} == {0.1}


def test_the_masks_study_has_every_method_with_a_stable_mask():
    study = find_study("masks")
    masking = {name for name in METHODS if find_method(name).has_masks}
    assert {row.method.partition(":")[0] for row in study.rows} == masking


def test_folds_are_the_shifts_of_tu():
    (cell,) = find_study("tu").cells(only=["AIA/MUTAG"])
    assert [spec.domain for spec in cell.specs] == [f"fold{number}" for number in range(10)]
    assert {(spec.seed, spec.backbone.width, spec.train.batch_size) for spec in cell.specs} == {(0, 128, 128)}


def test_studies_share_runs():
    every = {name: {spec.slug for cell in find_study(name).cells() for spec in cell.specs} for name in STUDIES}
    assert every["cost"] <= every["covariate"]
    assert len(every["ablation"] & every["covariate"]) == 80  # ERM and AIA in four columns


def test_words_change_every_run_but_not_what_a_row_is_about():
    words = ["train.epochs=2", "data.limit=48", "backbone.width=8", "backbone.kind=gin"]
    for cell in find_study("backbones").cells(2, words):
        assert [spec.seed for spec in cell.specs] == [0, 1]
        assert {(spec.train.epochs, spec.data.limit, spec.backbone.width) for spec in cell.specs} == {(2, 48, 8)}
        assert cell.specs[0].backbone.kind == cell.row.group.lower()


@pytest.mark.parametrize(
    ("only", "count"),
    [
        (["AIA"], 7),
        (["motif-base"], 17),
        (["motif"], 34),
        (["aia/MOTIF-base"], 1),
        (["*Mixup/mol*"], 8),
        (["AIA", "ERM"], 14),
        (["AIA/motif"], 2),
        (["AIA/motif", "AIA/motif-base", "ERM/cmnist"], 3),  # what any of them names, once
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
        ({"seeds": 0}, "number of seeds must be 1 or more, not 0"),
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


def test_the_recipe_is_what_a_study_runs():
    (cell,) = find_study("covariate").cells(1, only=["VREx/motif-base"])
    assert cell.specs[0].method_params.penalty == 100.0  # GOOD's, not the method's default
    assert RunSpec.make("motif", "vrex", recipe=None).method_params.penalty == 10.0


def test_train_and_every_study_make_the_same_runs():
    covariate = find_study("covariate")
    everyone = replace(covariate, name="every method", rows=tuple(Row(method, method) for method in METHODS))
    cells = [(study.name, cell) for study in (everyone, *map(find_study, STUDIES)) for cell in study.cells(1)]
    assert sum(study == "every method" for study, _ in cells) == 126
    for study, cell in cells:
        spec = cell.specs[0]
        words = [
            f"{group}.{name}={value}" for group, given in cell.row.changes.items() for name, value in given.items()
        ]
        trained = RunSpec.from_words(spec.dataset, cell.row.method, words, domain=spec.domain, kind=spec.kind)
        assert trained.key == spec.key, f"{study} {cell.name}"
