import hashlib

import pytest
import torch

from outland.errors import OutlandError
from outland.tables.splitting import assign_environments, split_by_group, split_rows, training_first
from tests.tables.cases import load, write


def test_group_rule_by_hand():
    """Ten rows: groups of 5, 3, 1, 1; 8 fit in train, 1 more in val; of equal groups the later row comes first."""
    groups = torch.tensor([7, 7, 3, 3, 3, 7, 7, 7, 1, 2])
    parts = split_by_group(groups)
    assert {name: index.tolist() for name, index in parts.items()} == {
        "train": [0, 1, 2, 3, 4, 5, 6, 7],
        "val": [9],
        "test": [8],
    }


INDEX = torch.arange(97)
COLUMNS = {"scaffold": INDEX**2 % 13, "size": INDEX * 7 % 31 + 3, "molecule": INDEX % 60, "time": INDEX * 37 % 89 / 3}


def short_hash(**tensors) -> str:
    return hashlib.sha256(str({name: tensor.tolist() for name, tensor in tensors.items()}).encode()).hexdigest()[:12]


@pytest.mark.parametrize(
    ("domain", "default", "other"),
    [
        ("scaffold", "21a0c083d204", "62e3c2b29763"),
        ("size", "f290b1a7e1ed", "d1d83414b40e"),
        ("random", "4fe3f32a5328", "9b2b9f73c004"),
        ("time", "be1cbf4d8dff", None),
    ],
)
def test_every_row_stays_in_its_part(domain, default, other):
    """Hashes of the parts that published runs were made with: fractions of 80, 10, 10 %, and 70, 20, 10 %."""
    assert short_hash(**split_rows(domain, COLUMNS, seed=5)) == default
    assert other in (None, short_hash(**split_rows(domain, COLUMNS, 5, (0.7, 0.2, 0.1))))


@pytest.mark.parametrize(("domain", "expected"), [("scaffold", "041eef6d2fa2"), ("time", "9875b14c8a54")])
def test_every_row_stays_in_its_environment(domain, expected):
    train = split_rows("scaffold", COLUMNS)["train"]
    environment, count = assign_environments(domain, COLUMNS, train)
    assert short_hash(e=environment) == expected
    assert environment[train].unique().tolist() == list(range(count))


def test_environments_of_training_rows_are_numbered_first():
    codes = torch.tensor([4, 0, 4, 2, 7, 2])
    assert training_first(codes, torch.tensor([3, 4])).tolist() == [3, 2, 3, 0, 1, 0]
    assert assign_environments("size", {}, torch.tensor([3, 4]), codes)[1] == 2


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


def test_environment_seen_only_outside_training(tmp_path):
    lines = [f"{'C' * n}O,{n % 2},{'A' if n > 3 else 'B'}" for n in range(1, 31)]
    path = write(tmp_path / "t.csv", "smiles,y,lab\n" + "\n".join(lines))
    splits = load(path, tmp_path, "size", environment="lab").check()
    assert splits.schema.environments == 1
    assert set(splits.part("test").environment.tolist()) == {1}
