import math

import pytest

from outland.errors import OutlandError
from outland.tables.labels import infer_labels, parse_number
from outland.tables.reading import read_rows
from tests.conftest import SAMPLES
from tests.tables.cases import ROWS, load, write

TOX = "NR-AR,NR-AR-LBD,NR-AhR,NR-Aromatase,NR-ER,NR-ER-LBD,NR-PPAR-gamma,SR-ARE,SR-ATAD5,SR-HSE,SR-MMP,SR-p53"


def test_several_tasks_with_missing_labels(tmp_path):
    splits = load(SAMPLES / "tox21.csv", tmp_path, "scaffold", target=tuple(TOX.split(","))).check()
    assert splits.schema.task.outputs == 12
    assert splits.schema.task.metric == "rocauc"
    assert splits.graphs.y.shape[1] == 12
    assert splits.graphs.y.isnan().any()
    first = next(read_rows(SAMPLES / "tox21.csv"))
    assert [("" if math.isnan(v) else str(int(v))) for v in splits.graphs.y[0].tolist()] == [
        first[n] for n in TOX.split(",")
    ]


def test_regression(tmp_path):
    splits = load(SAMPLES / "esol.csv", tmp_path, target="measured log solubility in mols per litre").check()
    assert splits.schema.task.kind == "regression"
    assert splits.graphs.y[0].item() == pytest.approx(-0.77)


def test_semicolons_and_decimal_commas(tmp_path):
    path = write(tmp_path / "excel.csv", "smiles;y\n" + "".join(f"{'C' * n};{n},5\n" for n in range(1, 15)))
    splits = load(path, tmp_path)
    assert splits.schema.task.kind == "regression"
    assert splits.graphs.y[:, 0].tolist() == [n + 0.5 for n in range(1, 15)]
    assert parse_number("1,5") == 1.5
    assert parse_number("1,234,567") is None
    assert parse_number("inf") is None


def test_names_of_classes(tmp_path):
    path = write(tmp_path / "w.csv", ROWS.replace(",0", ",inactive").replace(",1\n", ",active\n"))
    splits = load(path, tmp_path)
    assert splits.source["classes"] == ["inactive", "active"]
    assert splits.graphs.y[:, 0].tolist() == [float(n % 2) for n in range(1, 21)]
    three = write(tmp_path / "three.csv", "smiles,y\n" + "".join(f"{'C' * n},{'abc'[n % 3]}\n" for n in range(1, 31)))
    splits = load(three, tmp_path).check()
    assert splits.schema.task.kind == "multiclass"
    assert splits.graphs.y[:3].tolist() == [1, 2, 0]


def test_label_that_is_neither_number_nor_class(tmp_path):
    path = write(
        tmp_path / "mixed.csv", "smiles,y\n" + "".join(f"{'C' * n},{n}.5\n" for n in range(1, 30)) + "CCO,high\n"
    )
    (refused,) = load(path, tmp_path).source["quarantine"]
    assert refused == [30, "y", "high", "the label is not a number"]
    texts = write(tmp_path / "texts.csv", "smiles,y\n" + "".join(f"{'C' * n},name {n}\n" for n in range(1, 80)))
    with pytest.raises(OutlandError, match="'y' holds neither numbers nor classes"):
        load(texts, tmp_path)


def test_numbers_that_are_classes():
    rows = [{"y": str(value)} for value in (1, 2, 3, 2, 1)]
    labels = infer_labels(rows, ["y"])
    assert labels.task.kind == "multiclass"
    assert labels.classes == ("1", "2", "3")
    assert labels.read({"y": "2"}) == ([1.0], None)
    assert infer_labels(rows, ["y"], "regression").task.kind == "regression"


def test_thousands_are_not_decimals():
    assert parse_number("1,200") is None
    assert parse_number("1,200", decimal_comma=True) == 1.2
    assert parse_number("12,5") == 12.5
    assert parse_number("1e300") is None
    assert parse_number("TRUE") == 1


@pytest.mark.parametrize(
    ("values", "settings", "words"),
    [
        (["1"] * 20, {}, "every label in 'y' is '1': there is nothing to tell apart"),
        (["active", ""] * 10, {}, "every label in 'y' is 'active'"),
        ([str(n % 2) for n in range(14)] + ["ND"] * 4, {}, "22% of the labels in 'y' are no numbers, such as 'nd'"),
        ([str(n) for n in range(60)], {"task": "multiclass"}, "over 50 different labels"),
        (["1", "2", "3"] * 5, {"task": "binary"}, "holds 3 different labels, not two"),
        (["a", "b", "c"] * 5, {"task": "regression"}, "holds names, such as 'a', not numbers"),
    ],
)
def test_labels_that_need_a_word(tmp_path, values, settings, words):
    text = "smiles,y\n" + "".join(f"{'C' * (n + 1)}O,{value}\n" for n, value in enumerate(values))
    with pytest.raises(OutlandError, match=words):
        load(write(tmp_path / "t.csv", text), tmp_path, **settings)


def test_labels_in_other_clothes(tmp_path):
    """1 and 1.0 are one class, Yes and YES too, and two numbers may stand for no and yes."""
    labels = infer_labels([{"y": text} for text in ("1", "1.0", "2", "3")], ["y"])
    assert labels.classes == ("1", "2", "3")
    labels = infer_labels([{"y": text} for text in ("Yes", "YES ", "no", "No")], ["y"])
    assert labels.classes == ("no", "yes")
    labels = infer_labels([{"y": text} for text in ("1", "2", "2")], ["y"], "binary")
    assert labels.classes == ("1", "2")
    assert labels.read({"y": "2.0"}) == ([1.0], None)
