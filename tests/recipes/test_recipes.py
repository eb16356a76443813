import re
from itertools import product

import pytest

from outland.datasets import DATASETS, TableSettings, find_dataset
from outland.errors import OutlandError
from outland.methods import METHODS, Progress, build_method, find_method
from outland.recipes import find_recipe, recipe_for, recipe_names
from outland.report.published import paper_table
from outland.studies.recipe_check import check_recipe
from outland.training import RunSpec
from tests.cases import SMALL
from tests.conftest import REAL


@pytest.mark.parametrize("dataset", DATASETS)
def test_every_hyper_parameter_that_is_searched_has_a_value_and_a_source(dataset):
    recipe, source = recipe_for(dataset), find_dataset(dataset)
    for shift in source.domains[:2]:
        for kind in source.kinds:
            for method in METHODS:
                found = {one.name: one for one in recipe.settings_for(dataset, shift, kind, method)}
                for name in ("epochs", "batch_size", "width", "layers", "lr", *find_method(method).space):
                    assert found[name].source, (dataset, method, name)
                RunSpec.make(dataset, method, domain=shift, kind=kind)


def test_a_table_has_a_recipe_of_its_own(tmp_path):
    file = tmp_path / "own.csv"
    file.write_text("smiles,y\nCCO,1\nCCN,0\n")
    table = TableSettings(str(file), target="y")
    spec = RunSpec.make("own.csv", "aia", table=table)
    assert (spec.train.total_samples, spec.train.class_balance, spec.train.epochs) == (60_000, False, 100)
    assert (spec.backbone.kind, spec.backbone.width, spec.method_params.gamma) == ("dmpnn", 128, 0.5)
    assert spec.train.with_epochs_for(4000).epochs == 15
    assert (spec.train.with_epochs_for(10**6).epochs, spec.train.with_epochs_for(10).epochs) == (4, 40)
    asked = RunSpec.make("own.csv", "aia", table=table, changes={"train": {"epochs": 3}})
    assert (asked.train.epochs, asked.train.total_samples) == (3, None)
    bare = RunSpec.make("own.csv", "aia", table=table, recipe=None)
    assert (bare.train.total_samples, bare.backbone.width, bare.method_params.gamma) == (None, 300, 0.2)


def test_expected_numbers_are_the_papers():
    covariate = paper_table("covariate_shift")
    for column in covariate["columns"]:
        dataset, shift = column.split("-")
        expected = recipe_for(dataset).expected_scores(dataset, shift, "covariate")
        assert len(expected) == 17
        for label, row in covariate["rows"].items():
            assert expected[label.lower()] == (row[column]["mean"], row[column]["std"])
    assert recipe_for("motif").expected_scores("motif", "base", "concept")["aia"] == (82.51, 2.81)
    assert recipe_for("imdb-multi").expected_scores("imdb-multi", "fold0", "none")["aia"] == (53.02, 2.76)


def test_the_papers_table_and_the_released_command_are_both_there():
    released = RunSpec.make("motif", "aia", domain="base").method_params
    paper = RunSpec.make("motif", "aia:paper", domain="base").method_params
    assert (released.lr, released.lr_augmenter, released.front_layers) == (1e-3, 5e-3, 2)
    assert (paper.lr, paper.lr_augmenter, paper.front_layers) == (5e-3, 1e-3, 0)
    table = paper_table("hyperparameters")
    for place, column in enumerate(table["columns"]):
        dataset, shift = column.split("-")
        spec = RunSpec.make(dataset, "aia:paper", domain=shift, kind="covariate")
        assert f"{spec.backbone.layers}-{spec.backbone.width}" == table["backbone"][place]
        assert spec.method_params.lr == table["lr_classifier_beta"][place]
        assert spec.method_params.lr_augmenter == table["lr_augmenter_alpha"][place]
        params = spec.method_params
        assert (params.lambda_s, params.gamma) == (
            table["lambda_s"][place],
            table["gamma"][place],
        )


@pytest.mark.parametrize(("dataset", "size"), [("motif", 512), ("cmnist", 512), ("molhiv", 512), ("molbbbp", 32)])
def test_batches_are_those_of_the_papers_time(dataset, size):
    for domain in find_dataset(dataset).domains:
        assert RunSpec.make(dataset, "erm", domain=domain).train.batch_size == size
    assert "public command" in recipe_for(dataset).sections["common"].train["batch_size"].source


@pytest.mark.parametrize("dataset", DATASETS)
def test_dir_has_the_schedule_of_the_source_of_its_ratio(dataset):
    source = find_dataset(dataset)
    last = Progress(epoch=99, epochs=100)
    for domain, kind in product(source.domains[:2], source.kinds):
        good, own = (
            build_method(name, REAL, SMALL, RunSpec.make(dataset, name, domain=domain, kind=kind).method_params)
            for name in ("dir:good", "dir")
        )
        assert (good.settings.schedule, good.weight(last)) == ("ramp", pytest.approx(1, abs=1e-3))
        assert own.settings.schedule == "power"
        assert own.weight(last) < 16
    ratios = [RunSpec.make("motif", "dir:good", domain=domain).method_params.ratio for domain in ("base", "size")]
    assert ratios == [0.7, 0.8]


@pytest.mark.parametrize(
    ("dataset", "domain", "kind", "expected"),
    [
        ("motif", "base", "covariate", [0.9, 0.8, 0.7, 0.6, 0.5, 0.5]),
        ("motif", "size", "covariate", [0.9, 0.8, 0.7, 0.7, 0.7, 0.7]),
        ("motif", "base", "concept", [0.9, 0.7, 0.7, 0.7, 0.7, 0.7]),
        ("cmnist", "color", "covariate", [0.9, 0.7, 0.7, 0.7, 0.7, 0.7]),
        ("molbbbp", "size", "covariate", [0.9, 0.8, 0.7, 0.7, 0.7, 0.7]),
        ("molhiv", "scaffold", "covariate", [0.9, 0.8, 0.7, 0.6, 0.5, 0.5]),
        ("molhiv", "size", "covariate", [0.9, 0.7, 0.5, 0.5, 0.5, 0.5]),
    ],
)
def test_the_r_of_gsat_has_fallen_long_before_a_model_is_selected(dataset, domain, kind, expected):
    spec = RunSpec.make(dataset, "gsat", domain=domain, kind=kind)
    actual = [spec.method_params.r(Progress(epoch=epoch)) for epoch in (0, 10, 20, 30, 40, 69)]
    assert actual == pytest.approx(expected)
    assert spec.train.epochs == 100


@pytest.mark.parametrize("dataset", DATASETS)
def test_the_papers_reading_is_the_papers_on_every_dataset(dataset):
    params = RunSpec.make(dataset, "aia:paper").method_params
    assert (params.front_layers, params.distance, params.mask_head) == (0, "squared", "mlp")
    assert (params.update, params.lambda_a_node, params.lambda_a_edge) == ("simultaneous", 1.0, 1.0)
    assert (params.stable_weight, params.adversarial_weight) == (1.0, 1.0)


def test_special_sections_win_and_changes_win_over_them():
    scaffold = RunSpec.make("molbbbp", "aia", domain="scaffold")
    size = RunSpec.make("molbbbp", "aia", domain="size")
    assert (scaffold.backbone.width, scaffold.method_params.lr) == (64, 1e-3)
    assert (size.backbone.width, size.method_params.lr, size.method_params.gamma) == (32, 5e-3, 0.5)
    asked = RunSpec.make("molbbbp", "aia", domain="size", changes={"backbone": {"width": "16"}})
    assert asked.backbone.width == 16
    assert RunSpec.make("molbbbp", "aia:rdia", domain="size").method_params.lr == 5e-3


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("datasets = [", "is not TOML"),
        ('about = "x"', "must say its datasets"),
        ('datasets = ["motif"]\nabout = "x"\n[common.train]\nepochs = 3', "common.train.epochs must be written"),
        ('datasets = ["motif"]\nabout = "x"\n[common.trian]\nepochs = 3', "Did you mean 'train'?"),
        ('datasets = ["motif"]\nabout = "x"\nsize = 3', "'size' is not a section"),
    ],
)
def test_a_recipe_of_ones_own_is_checked(tmp_path, text, sentence):
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(OutlandError, match=sentence.replace("?", r"\?")):
        find_recipe(str(path))


def test_all_mistakes_of_a_recipe_are_told_at_once(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text('datasets = ["motif"]\n[common.trian]\nlr = 1\n[common.train]\nepochs = 3\n[size]\nmethod = 4')
    with pytest.raises(OutlandError) as told:
        find_recipe(str(path))
    assert str(told.value).splitlines() == [
        f"the recipe {path} has 4 mistakes:",
        "- it must say its about, as in about = ...",
        '- common.train.epochs must be written { value = ..., source = "..." }',
        "- unknown group of settings in [common] 'trian'. Did you mean 'train'? Valid: backbone, method, train",
        "- 'size.method' is not a section; write [size.method]",
    ]


def test_all_settings_of_a_recipe_are_checked_at_once(tmp_path):
    path = tmp_path / "own.toml"
    lines = ['datasets = ["motif"]', 'about = "x"', "[common.train]"]
    lines += [
        f'{name} = {{ value = {value}, source = "x" }}' for name, value in (("epocs", 3), ("batch_size", '"many"'))
    ]
    lines += ["[common.backbone]", 'width = { value = -1, source = "x" }', 'layers = { value = 3, source = "x" }']
    lines += ["[size.method.aai]", 'gamma = { value = 1, source = "x" }', 'lr = { value = 1, source = "x" }']
    lines += ["[size.method.'aia:paper']", 'gama = { value = 1, source = "x" }']
    lines += ["[size.method.'none.py:Mine']", 'gama = { value = 1, source = "x" }']  # is not run to be asked
    path.write_text("\n".join(lines))
    with pytest.raises(OutlandError) as told:
        check_recipe(find_recipe(str(path)))
    found = str(told.value).splitlines()
    assert found[0] == f"the recipe {path} has 5 mistakes:"
    for line, words in zip(
        found[1:],
        (
            ("[common.backbone] width", "must be from 1 to 8192"),
            ("[common.train] epocs", "Did you mean 'epochs'?"),
            ("[common.train] batch_size", "takes a whole number, not 'many'"),
            ("[size.method.aai]", "Did you mean 'aia'?"),
            ("[size.method.aia:paper] gama", "Did you mean 'gamma'?"),
        ),
        strict=True,
    ):
        assert all(word in line for word in words), line


@pytest.mark.parametrize("name", recipe_names())
def test_recipes_name_sources_that_a_reader_can_find(name):
    recipe = check_recipe(find_recipe(name))
    assert not [path for path, entry in recipe.entries() if re.search(r"\bcards?\b", entry.source)]


def test_unknown_recipes_get_a_sentence(tmp_path):
    assert recipe_names() == ["cmnist", "molbbbp", "molhiv", "motif", "table", "tu"]
    with pytest.raises(OutlandError, match="Did you mean 'motif'"):
        find_recipe("motiv")
    with pytest.raises(OutlandError, match="cannot be read"):
        find_recipe(str(tmp_path / "none.toml"))
    assert recipe_for("nothing") is None


def test_shapes_are_those_of_the_paper():
    counts = paper_table("statistics")
    for place, column in enumerate(counts["columns"]):
        dataset, shift = column.split("-")
        shape = recipe_for(dataset).dataset_size(dataset, shift, "covariate")
        assert shape.train == counts["train"]["graphs"][place]
    assert recipe_for("mutag").dataset_size("mutag", "fold3", "none").train == 150
