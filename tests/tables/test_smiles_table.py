import csv
import gzip
import math

import pytest
import torch

from outland.errors import OutlandError
from outland.graphs import Cache
from outland.tables import TableSettings
from outland.tables.labels import infer_labels, parse_number
from outland.tables.quarantine import write_quarantine
from outland.tables.reading import column_names, read_rows
from outland.tables.smiles_table import SmilesTable
from tests.conftest import SAMPLES

TOX = "NR-AR,NR-AR-LBD,NR-AhR,NR-Aromatase,NR-ER,NR-ER-LBD,NR-PPAR-gamma,SR-ARE,SR-ATAD5,SR-HSE,SR-MMP,SR-p53"


def load(path, tmp_path, shift="random", **settings):
    settings = {"target": "y", **settings}
    return SmilesTable(TableSettings(str(path), **settings)).load(shift, "covariate", cache=Cache(tmp_path / "cache"))


def write(path, text, encoding="utf-8"):
    path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
    return path


ROWS = "smiles,y\n" + "".join(f"{'C' * n}O,{n % 2}\n" for n in range(1, 21))


@pytest.mark.parametrize("split", ["scaffold", "size", "cluster", "random"])
def test_bbbp_sample_under_every_split(tmp_path, split):
    splits = load(SAMPLES / "bbbp.csv", tmp_path, split, target="p_np").check()
    used = sum(len(index) for index in splits.parts.values())
    assert used == splits.source["used"] == 298
    assert sorted(torch.cat(list(splits.parts.values())).tolist()) == list(range(used))
    assert splits.schema.task.kind == "binary"
    if split in ("scaffold", "cluster"):
        groups = {part: set(splits.part(part).extra[split].tolist()) for part in splits.parts}
        assert not groups["train"] & groups["test"]
        assert not groups["train"] & groups["val"]
    if split == "size":
        assert splits.part("train").node_counts.min() >= splits.part("test").node_counts.max()


def test_nothing_is_dropped_unsaid(tmp_path):
    splits = load(SAMPLES / "bbbp.csv", tmp_path, target="p_np")
    assert splits.source["rows"] == 300
    assert [row[:2] for row in splits.source["quarantine"]] == [[60, "smiles"], [62, "smiles"]]
    assert write_quarantine(splits, tmp_path / "q.csv") == 2
    with (tmp_path / "q.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert rows[0]["row"] == "60"
    assert rows[0]["reason"] == "RDKit cannot read the SMILES"
    with pytest.raises(OutlandError, match="2 rows cannot be used; the first: row 60, column 'smiles'"):
        load(SAMPLES / "bbbp.csv", tmp_path, target="p_np", strict=True)


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


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "t.parquet", "t.tsv.gz"])
def test_every_format_gives_the_same(tmp_path, name):
    path = tmp_path / name
    text = ROWS.replace(",", "\t") if ".tsv" in name else ROWS
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    elif name.endswith(".parquet"):
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.csv.read_csv(pyarrow.BufferReader(ROWS.encode())), path)
    else:
        path.write_text(text)
    splits = load(path, tmp_path)
    assert column_names(path) == ["smiles", "y"]
    assert splits.graphs.y[:, 0].tolist() == [float(n % 2) for n in range(1, 21)]
    assert splits.graphs.node_counts.tolist() == list(range(2, 22))


def test_semicolons_and_decimal_commas(tmp_path):
    path = write(tmp_path / "excel.csv", "smiles;y\n" + "".join(f"{'C' * n};{n},5\n" for n in range(1, 15)))
    splits = load(path, tmp_path)
    assert splits.schema.task.kind == "regression"
    assert splits.graphs.y[:, 0].tolist() == [n + 0.5 for n in range(1, 15)]
    assert parse_number("1,5") == 1.5
    assert parse_number("1,234,567") is None
    assert parse_number("inf") is None


def test_byte_order_mark_and_blank_lines(tmp_path):
    path = write(tmp_path / "bom.csv", b"\xef\xbb\xbf" + ROWS.replace("\n", "\n\n").encode())
    assert load(path, tmp_path).source["rows"] == 20


def test_bytes_that_are_not_utf8_are_set_aside(tmp_path):
    path = write(tmp_path / "latin.csv", ROWS.encode() + "Méthane,1\n".encode("latin-1"))
    (refused,) = load(path, tmp_path).source["quarantine"]
    assert refused[0] == 21
    assert refused[3] == "bytes that are not UTF-8"


def test_odd_molecules_are_used_or_named(tmp_path):
    path = write(tmp_path / "odd.csv", ROWS + f"[Na+].[Cl-],1\n[Na+],0\n{'C' * 10000},1\n,1\nCCO,?\nCCO,maybe\n")
    splits = load(path, tmp_path)
    reasons = {row: reason for row, _, _, reason in splits.source["quarantine"]}
    assert splits.source["fragments"] == 1
    assert "10000 characters" in reasons[23]
    assert reasons[24] == "no SMILES"
    assert reasons[25] == "no label"
    assert reasons[26] == "the label is not 0 or 1"
    assert set(reasons) == {23, 24, 25, 26}


def test_duplicates_and_contradictions_are_counted(tmp_path):
    path = write(tmp_path / "dup.csv", ROWS + "OCC,0\nOCC,1\nOC,1\n")
    source = load(path, tmp_path).source
    assert source["duplicates"] == 3
    assert source["contradictions"] == 1


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


def test_time_and_column_splits(tmp_path):
    lines = [f"{'C' * n}O,{n % 2},20{40 - n:02d}-01-01,{('train', 'Valid', 'test')[n % 3]}" for n in range(1, 31)]
    path = write(tmp_path / "t.csv", "smiles,y,when,part\n" + "\n".join(lines))
    splits = load(path, tmp_path, "time", time="when")
    assert splits.part("test").extra["row"].tolist() == [3, 2, 1]
    splits = load(path, tmp_path, "column", split="part")
    assert splits.part("val").extra["row"].tolist() == list(range(1, 31, 3))
    with pytest.raises(OutlandError, match="the split 'time' needs a column: name it with --time"):
        load(path, tmp_path, "time")
    wrong = write(tmp_path / "wrong.csv", (tmp_path / "t.csv").read_text().replace("Valid", "holdout"))
    with pytest.raises(OutlandError, match="the column 'part' says 'holdout'"):
        load(wrong, tmp_path, "column", split="part")


def test_environment_column(tmp_path):
    lines = [f"{'C' * n}O,{n % 2},{'lab A' if n < 12 else 'lab B'}" for n in range(1, 31)]
    path = write(tmp_path / "t.csv", "smiles,y,lab\n" + "\n".join(lines))
    splits = load(path, tmp_path, environment="lab")
    assert splits.graphs.environment.tolist() == [0] * 11 + [1] * 19
    assert splits.schema.environments == 2
    assert splits.source["environments"] == "column"


@pytest.mark.parametrize(
    ("text", "settings", "words"),
    [
        ("", {}, "is empty"),
        ("smiles,y\n", {}, "a header and no rows"),
        (ROWS, {"target": "label"}, r"unknown column of t.csv 'label'.*Valid: smiles, y"),
        (ROWS, {"smiles": "SMILES"}, r"Did you mean 'smiles'"),
        (ROWS, {"target": ""}, "Name it with --target"),
        ("smiles,y\nCC,\nCCC,\n", {}, "has no labels at all"),
        ("smiles,y\naspirin,1\nibuprofen,0\n", {}, "no row of .* can be used; the first: row 1, column 'smiles'"),
        (
            "smiles,y,z\nCC,1,a\nCCC,0,b\nC,0,c\n",
            {"target": ("y", "z")},
            "several targets must all be 0/1 or all be numbers, and 'z'",
        ),
    ],
)
def test_unusable_tables_get_a_sentence(tmp_path, text, settings, words):
    with pytest.raises(OutlandError, match=words):
        load(write(tmp_path / "t.csv", text), tmp_path, **settings)


def test_files_that_are_no_tables(tmp_path):
    with pytest.raises(OutlandError, match="there is no file"):
        load(tmp_path / "none.csv", tmp_path)
    with pytest.raises(OutlandError, match="its name must end in"):
        load(write(tmp_path / "t.xlsx", "PK"), tmp_path)
    with pytest.raises(OutlandError, match="cannot be read"):
        load(write(tmp_path / "t.csv.gz", "not gzip"), tmp_path)
    with pytest.raises(OutlandError, match="cannot be read"):
        load(write(tmp_path / "t.parquet", "not parquet"), tmp_path)


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


def test_rows_of_one_molecule_stay_together_at_random(tmp_path):
    path = write(tmp_path / "t.csv", "smiles,y\n" + "".join(f"{'C' * (n % 12 + 1)}O,{n % 2}\n" for n in range(60)))
    splits = load(path, tmp_path)
    molecules = [set(splits.part(part).extra["molecule"].tolist()) for part in ("train", "val", "test")]
    assert not molecules[0] & molecules[1]
    assert not molecules[0] & molecules[2]
    assert splits.source["kind"] == "none"


def test_equal_sizes_stay_together(tmp_path):
    path = write(tmp_path / "t.csv", "smiles,y\n" + "".join(f"{'C' * (n % 30 + 1)}O,{n % 2}\n" for n in range(90)))
    splits = load(path, tmp_path, "size")
    sizes = [set(splits.part(part).node_counts.tolist()) for part in ("train", "val", "test")]
    assert not sizes[0] & sizes[1]
    assert not sizes[1] & sizes[2]


def test_one_scaffold_for_all_is_a_sentence(tmp_path):
    with pytest.raises(
        OutlandError, match=r"split by scaffold leaves none of 20 rows for 'train'.*try --domain random"
    ):
        load(write(tmp_path / "t.csv", ROWS), tmp_path, "scaffold")


def test_environment_seen_only_outside_training(tmp_path):
    lines = [f"{'C' * n}O,{n % 2},{'A' if n > 3 else 'B'}" for n in range(1, 31)]
    path = write(tmp_path / "t.csv", "smiles,y,lab\n" + "\n".join(lines))
    splits = load(path, tmp_path, "size", environment="lab").check()
    assert splits.schema.environments == 1
    assert set(splits.part("test").environment.tolist()) == {1}


def test_dates_and_numbers_do_not_mix(tmp_path):
    lines = [f"{'C' * n}O,{n % 2},20{n:02d}-01-01" for n in range(1, 31)] + ["CCCN,1,2020"]
    path = write(tmp_path / "t.csv", "smiles,y,when\n" + "\n".join(lines))
    (refused,) = load(path, tmp_path, "time", time="when").source["quarantine"]
    assert refused == [31, "when", "2020", "not a date, as others are"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (ROWS.encode("utf-16"), "is in UTF-16"),
        ("smiles,löslich\nCC,1\n".encode("latin-1"), "header of .* is not in UTF-8"),
        (b"smiles,y,y\nCC,1,0\n", "two columns called 'y'"),
        (b'smiles,y\n"CC,1\nCCC,0\n', "t.csv, line"),
    ],
)
def test_broken_files_get_a_sentence(tmp_path, content, words):
    with pytest.raises(OutlandError, match=words):
        load(write(tmp_path / "t.csv", content), tmp_path)


def test_excel_says_its_separator(tmp_path):
    text = "sep=;\nsmiles;y\n" + "".join(f"{'C' * n};{n},5\n" for n in range(1, 15))
    splits = load(write(tmp_path / "t.csv", text), tmp_path)
    assert splits.graphs.y[:, 0].tolist() == [n + 0.5 for n in range(1, 15)]


def test_a_row_without_its_split_or_environment_is_set_aside(tmp_path):
    lines = [f"{'C' * n}O,{n % 2},{('train', 'val', 'test')[n % 3] if n != 7 else ''}" for n in range(1, 31)]
    path = write(tmp_path / "t.csv", "smiles,y,part\n" + "\n".join(lines))
    (refused,) = load(path, tmp_path, "column", split="part").source["quarantine"]
    assert refused == [7, "part", "", "no split"]
