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
        ([str(n % 2) for n in range(14)] + ["ND"] * 4, {}, "22% of the labels in 'y' are no numbers, such as 'ND'"),
        ([str(n) for n in range(60)], {"task": "multiclass"}, "over 50 different labels"),
        (["1", "2", "3"] * 5, {"task": "binary"}, "holds 3 different labels, not two"),
        ([f"{n}.5" for n in range(60)] + ["ND"] * 20, {}, "25% of the labels in 'y' are no numbers, such as 'ND'"),
        (["a", "b", "c"] * 5, {"task": "regression"}, "holds names, such as 'a', not numbers"),
        (
            [f"{n}.5 uM" for n in range(40)],
            {},
            "most labels in 'y' are numbers with .* such as '0.5 uM': leave the num",
        ),
        ([f"{n}.5 uM" for n in range(60)], {}, "such as '0.5 uM': leave the number alone in its cell, in one unit"),
        ([f"{n}.30 ± 0.1" for n in range(12)], {}, "such as '0.30 ± 0.1'"),
        ([f'"{n},067"' for n in range(1, 13)], {}, "such as '1,067'"),
        (
            [f"Lot{n % 15}" for n in range(29)],
            {},
            "15 different labels in 29 rows, such as 'Lot0'; if they are classes",
        ),
    ],
)
def test_labels_that_need_a_word(tmp_path, values, settings, words):
    text = "smiles,y\n" + "".join(f"{'C' * (n + 1)}O,{value}\n" for n, value in enumerate(values))
    with pytest.raises(OutlandError, match=words):
        load(write(tmp_path / "t.csv", text), tmp_path, **settings)


UNITS = [f"{n}.5{' uM' if n % 7 < 3 else ''}" for n in range(35)]


@pytest.mark.parametrize(
    ("values", "settings", "words"),
    [
        (UNITS, {}, "43% of the labels in 'y' are numbers with something else beside them, such as '0.5 uM': leave"),
        (UNITS, {}, "in one unit for all rows; --task regression sets these rows aside; if they are names, say --task"),
        ([*UNITS, "ND", ">20 uM", "<0.5"], {}, "42% of the labels in 'y' are numbers with something else"),
        ([*UNITS, "9 uM", "9 uM", "9 uM", "ND", "ND", "ND"], {}, "44% of the .* in one unit for all rows; if they are"),
        ([f"{n}.5 uM" for n in range(12)], {"task": "regression"}, "most labels .* in one unit for all rows$"),
    ],
)
def test_units_beside_some_numbers_are_recognised(values, settings, words):
    with pytest.raises(OutlandError, match=words):
        read(values, **settings)


def test_rows_with_a_unit_are_set_aside_where_one_asks_for_regression():
    labels, reader = read(UNITS, task="regression")
    assert [len(values) for values in labels] == [int(n % 7 >= 3) for n in range(35)]
    reason = "the label has a unit or something else beside its number"
    assert reader.read({"y": "0.5 uM"})[1] == ("y", "0.5 uM", reason)
    assert reader.read({"y": "1,067"})[1] == ("y", "1,067", reason)
    assert reader.read({"y": "high"})[1] == ("y", "high", "the label is not a number")
    rows = [{"a": text, "b": f"{text} nM"} for text in ("1.5", "2.5", "3.5")]
    with pytest.raises(OutlandError, match="most labels in 'b' are numbers with something else beside them"):
        infer_labels(rows, ["a", "b"], task="regression")


def test_names_of_few_classes_may_begin_with_digits():
    """More than ten names are asked about, unless they are no numbers and each stands in two rows or more."""
    assert read(["2C9", "3A4", "1A2"])[1].classes == ("1A2", "2C9", "3A4")
    assert read([f"Lot{n % 15}" for n in range(30)])[1].task.outputs == 15
    assert read([f"{n}.5 uM" for n in range(40)], task="multiclass")[1].task.outputs == 40


def test_classes_are_spelled_as_at_first():
    labels, reader = read(["Inactive", "ACTIVE", "inactive", "Active"])
    assert reader.classes == ("Inactive", "ACTIVE")
    assert labels == [[0], [1], [0], [1]]


def test_minus_is_a_label_beside_plus_and_else_a_gap():
    labels, reader = read(["+", "-", "+", " - ", ""])
    assert reader.classes == ("-", "+")
    assert labels == [[1], [0], [1], [0], []]
    assert read(["yes", "-", "no"])[0] == [[1], [], [0]]
    with pytest.raises(OutlandError, match="may mean two: '\\+' and 'pos' for 1, '-' for 0"):
        read(["+", "-", "pos"])
    assert read(["+", "-", "pos"], merge=True)[0] == [[1], [0], [1]]


def test_a_target_of_one_class_is_not_trained_beside_others():
    with pytest.raises(OutlandError, match="every label in 'b' is 1: there is nothing to tell apart; train the others"):
        infer_labels([{"a": "0", "b": "1"}, {"a": "1", "b": ""}], ["a", "b"])


def test_labels_in_other_clothes(tmp_path):
    """1 and 1.0 are one class, Yes and YES too, and two numbers may stand for no and yes."""
    labels = infer_labels([{"y": text} for text in ("1", "1.0", "2", "3")], ["y"])
    assert labels.classes == ("1", "2", "3")
    labels = infer_labels([{"y": text} for text in ("Yes", "YES ", "no", "No")], ["y"])
    assert labels.classes == ("no", "Yes")
    labels = infer_labels([{"y": text} for text in ("1", "2", "2")], ["y"], "binary")
    assert labels.classes == ("1", "2")
    assert labels.read({"y": "2.0"}) == ([1.0], None)


def read(texts, **settings):
    """The labels of a column of these texts, and the reader."""
    rows = [{"y": text} for text in texts]
    reader = infer_labels(rows, ["y"], **settings)
    return [reader.read(row)[0] for row in rows], reader


WORDS = ["1", "active", "TRUE", "0", "Inactive", "no", "1", "0"]


def test_words_that_mean_the_same_are_merged_if_one_says_so():
    with pytest.raises(OutlandError, match="may mean two: '1', 'active' and 'TRUE' for 1, '0', 'Inactive'"):
        read(WORDS)
    with pytest.raises(OutlandError, match="--merge-labels, or keep them apart with --task multiclass"):
        read(WORDS, task="binary")
    labels, reader = read(WORDS, merge=True)
    assert labels == [[1], [1], [1], [0], [0], [0], [1], [0]]
    assert reader.task.kind == "binary"
    assert read(WORDS, task="multiclass")[1].task.outputs == 6
    assert read(["TRUE", "1", "0"])[0] == [[1], [1], [0]]  # as ever
    assert read(["yes", "no", "yes"])[1].classes == ("no", "yes")


NUMBERS = ["1.5", "2.5", ">10", "<0.5", "3.5", "4", "5", "6", "7", "8"]


def test_limits_are_asked_about():
    with pytest.raises(OutlandError, match="2 labels of 10 in 'y' are limits, such as '>10': --censored drop leaves"):
        read(NUMBERS)
    labels, _ = read(NUMBERS, censored="value")
    assert [values[0] for values in labels[:4]] == [1.5, 2.5, 10, 0.5]
    labels, reader = read(NUMBERS, censored="drop")
    assert [len(values) for values in labels] == [1, 1, 0, 0, 1, 1, 1, 1, 1, 1]
    assert reader.read({"y": ">10"})[1] == ("y", ">10", "a limit, no measured value")
    assert read([">10", "<=10", ">10"])[1].classes == ("<=10", ">10")  # two names of classes


def test_of_several_targets_a_limit_is_a_gap():
    rows = [{"a": "1.5", "b": ">3"}, {"a": "2.5", "b": "2.25"}, {"a": "", "b": "1.5"}]
    values, problem = infer_labels(rows, ["a", "b"], censored="drop").read(rows[0])
    assert problem is None
    assert values[0] == 1.5
    assert math.isnan(values[1])


def test_yes_or_no_and_numbers_are_not_mixed():
    rows = [{"a": "1", "b": "3.25"}, {"a": "0", "b": "2.25"}]
    with pytest.raises(OutlandError, match="a is 0/1 and others are not; train them apart, or say --task regression"):
        infer_labels(rows, ["a", "b"])
    assert infer_labels(rows, ["a", "b"], task="regression").task.kind == "regression"
    words = [{"a": "active", "b": "1"}, {"a": "inactive", "b": "0"}]
    with pytest.raises(OutlandError, match=r"'a' is not .*, or read its words as 0 and 1 with --merge-labels"):
        infer_labels(words, ["a", "b"])
    assert infer_labels(words, ["a", "b"], merge=True).read(words[0]) == ([1.0, 1.0], None)
