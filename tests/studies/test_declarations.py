from dataclasses import replace

import pytest

from outland.methods import METHODS, find_method
from outland.report.published import paper_table
from outland.studies import STUDIES, find_study
from outland.studies.base import Row
from outland.studies.sensitivity import PRICES, SHARES
from outland.training import RunSpec

SIZES = {  # rows, columns, runs
    "covariate": (18, 7, 1254),
    "correlation": (11, 3, 253),
    "shift": (6, 4, 198),
    "diversity": (2, 1, 20),
    "ablation": (5, 4, 165),
    "sensitivity": (19, 3, 570),
    "backbones": (12, 4, 480),
    "tu": (6, 6, 360),
    "cost": (18, 7, 1134),
    "masks": (9, 2, 180),
    "ours": (13, 3, 390),
}


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_expands_to_its_cells(name):
    study = find_study(name)
    cells = study.cells()
    specs = [spec for cell in cells for spec in cell.specs]
    assert (len(study.rows), len(study.columns), len(specs)) == SIZES[name]
    assert len({cell.name for cell in cells}) == len(cells)
    # Where a dial of the study of sensitivity stands as in the recipe, the other's run is the same one; and with or
    # without closed walks, by a mean or a maximum, Evidence is what its recipe has.
    shared = {"sensitivity": 30, "ours": 60}
    assert len({spec.slug for spec in specs}) == len(specs) - shared.get(name, 0)
    assert all(spec.kind == cell.column.kind for cell in cells for spec in cell.specs)
    assert study.name == name


@pytest.mark.parametrize(
    ("name", "table"), [("covariate", "covariate_shift"), ("correlation", "correlation_shift"), ("tu", "tu")]
)
def test_rows_and_columns_are_the_papers(name, table):
    study, published = find_study(name), paper_table(table)
    assert list(dict.fromkeys(row.published for row in study.rows)) == list(published["rows"])
    assert [column.label for column in study.columns] == published["columns"]


@pytest.mark.parametrize(("name", "cells"), [("covariate", 126), ("correlation", 33), ("cost", 126)])
def test_main_tables_have_aia_as_its_code_and_as_its_paper_has_it(name, cells):
    study = find_study(name)
    assert len(study.cells(1)) == cells
    both = {cell.row.label: cell.specs[0].method_params for cell in study.cells(1, only=["AIA/motif-base"])}
    assert list(both) == ["AIA (released)", "AIA (paper)"]
    released, paper = both.values()
    assert (released.lr, released.lr_augmenter, released.front_layers, released.distance) == (1e-3, 5e-3, 2, "mean")
    assert (paper.lr, paper.lr_augmenter, paper.front_layers, paper.distance) == (5e-3, 1e-3, 0, "squared")
    for row in study.rows:
        assert (row.paper == "AIA") == row.method.startswith("aia")


def test_backbones_are_the_papers():
    study, published = find_study("backbones"), paper_table("backbones")
    assert list(dict.fromkeys(row.group for row in study.rows)) == list(published["rows"])
    for kind, rows in published["rows"].items():
        assert [row.label for row in study.rows if row.group == kind] == list(rows)
    for cell in study.cells(1):
        assert cell.specs[0].backbone.kind == cell.row.group.lower()


def test_shift_and_diversity_are_the_papers():
    study, published = find_study("shift"), paper_table("gcs")
    assert [row.label for row in study.rows if row.label != "EERM"] == list(published["rows"])
    pairs = [f"{column.label}/{quantity.name}" for column in study.columns for quantity in study.quantities[:2]]
    assert pairs == published["columns"]
    study, published = find_study("diversity"), paper_table("diversity")
    assert [row.label for row in study.rows] == list(published["rows"])
    assert [quantity.name for quantity in study.quantities[:3]] == published["columns"]


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
    assert {row.method.partition(":")[0] for row in study.with_newer().rows} == masking


def test_folds_are_the_shifts_of_tu():
    (cell,) = find_study("tu").cells(only=["AIA/MUTAG"])
    assert [spec.domain for spec in cell.specs] == [f"fold{number}" for number in range(10)]
    assert {(spec.seed, spec.backbone.width, spec.train.batch_size) for spec in cell.specs} == {(0, 128, 128)}


def test_studies_share_runs():
    every = {name: {spec.slug for cell in find_study(name).cells() for spec in cell.specs} for name in STUDIES}
    assert every["cost"] <= every["covariate"]
    assert len(every["ablation"] & every["covariate"]) == 66  # ERM and AIA in four columns


def test_the_recipe_is_what_a_study_runs():
    (cell,) = find_study("covariate").cells(1, only=["VREx/motif-base"])
    assert cell.specs[0].method_params.penalty == 100.0  # GOOD's, not the method's default
    assert RunSpec.make("motif", "vrex", recipe=None).method_params.penalty == 10.0


@pytest.mark.parametrize("name", ["covariate", "masks"])
def test_disc_is_that_of_its_code_with_one_weight_a_batch(name):
    cells = find_study(name).cells(1, only=["DisC"])
    assert len(cells) == {"covariate": 7, "masks": 2}[name]
    for cell in cells:
        params = cell.specs[0].method_params
        assert (cell.row.method, params.weights, params.bias_weight) == ("disc:released", "batch", 0.7)
        assert (params.swap_weight, params.swap_after, params.lr) == (15.0, 0.5, 1e-3)


def test_train_and_every_study_make_the_same_runs():
    covariate = find_study("covariate")
    everyone = replace(covariate, name="every method", rows=tuple(Row(method, method) for method in METHODS))
    studies = (everyone, *(find_study(name).with_newer() for name in STUDIES))
    cells = [(study.name, cell) for study in studies for cell in study.cells(1)]
    assert sum(study == "every method" for study, _ in cells) == 7 * len(METHODS)
    for study, cell in cells:
        spec = cell.specs[0]
        words = [
            f"{group}.{name}={value}" for group, given in cell.row.changes.items() for name, value in given.items()
        ]
        trained = RunSpec.from_words(spec.dataset, cell.row.method, words, domain=spec.domain, kind=spec.kind)
        assert trained.key == spec.key, f"{study} {cell.name}"


@pytest.mark.parametrize(
    ("column", "walks", "readout", "same"),
    [
        ("motif-size", 6, "max", {"Evidence", "with walks", "maximum"}),
        ("molbbbp-scaffold", 0, "backbone", {"Evidence", "w/o walks", "mean"}),
    ],
)
def test_each_part_of_evidence_is_left_out_in_a_row(column, walks, readout, same):
    cells = find_study("ours").cells(1, only=[column])
    params = {cell.row.label: cell.specs[0].method_params for cell in cells if cell.row.method == "evidence"}
    complete = params["Evidence"]
    assert (complete.gate, complete.layer, complete.readout, complete.walks) == (True, True, readout, walks)
    assert (complete.whole, complete.drop, complete.mix) == (0.5, 0.5, 0.5)
    alone = replace(complete, gate=False, layer=False, whole=1.0, mix=0.0, walks=6)
    assert params == {
        "w/o mixing": replace(complete, mix=0.0),
        "ERM + walks": replace(alone, readout="backbone"),
        "ERM + walks + maximum": replace(alone, readout="max"),
        "w/o gate": replace(complete, gate=False),
        "w/o layer": replace(complete, layer=False),
        "w/o thinning": replace(complete, whole=1.0),
        "w/o walks": replace(complete, walks=0),
        "with walks": replace(complete, walks=6),
        "mean": replace(complete, readout="backbone"),
        "maximum": replace(complete, readout="max"),
        "Evidence": complete,
    }
    keys = {cell.row.label: cell.specs[0].key for cell in cells}
    assert {label for label, key in keys.items() if key == keys["Evidence"]} == same
    pools = {cell.row.label: cell.specs[0].backbone.pool for cell in cells}
    assert (pools["ERM"], pools["ERM + maximum"]) == ("mean", "max")


def test_rows_since_the_paper_are_there_when_asked_for():
    study = find_study("covariate")
    everything = study.with_newer()
    assert (study.has_newer, everything.has_newer) == (False, True)
    assert everything.rows[: len(study.rows)] == study.rows
    labels = [row.label for row in everything.rows[len(study.rows) :]]
    assert labels == ["PrunE", "ERM + unit readout", "LECI", "LECI + virtual node", "iMoLD", "GALA", "Evidence"]
    specs = {cell.row.label: cell.specs[0] for cell in everything.cells(1, only=["since the paper/motif-size"])}
    assert (specs["LECI"].backbone.virtual_node, specs["LECI + virtual node"].backbone.virtual_node) == (False, True)
    assert specs["LECI"].method_params.first_temperature == 10
    assert specs["ERM + unit readout"].backbone.unit_readout
    assert (specs["PrunE"].method_params.budget, specs["PrunE"].method_params.lowest) == (0.85, 0.9)
    assert everything.default_count(everything.rows[-1], everything.columns[0]) == 10
