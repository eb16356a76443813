"""Labelled graphs for a model, by name: a part of its own dataset, of another, or a table with the same targets."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

from outland.chem.featurizer import CIP_ATOMS
from outland.datasets import DataFolder, PartName, TableSettings, select_part
from outland.errors import OutlandError
from outland.graphs import Cache, PackedGraphs, Schema
from outland.models.model import TrainedModel
from outland.spec import load_splits
from outland.tables.columns import find_smiles_column
from outland.tables.labels import Censored, LabelReader, parse_number
from outland.tables.reading import has_decimal_comma
from outland.tables.smiles_table import read_with_labels


def load_part(
    model: TrainedModel, name: str, cache: Cache | None = None, data: DataFolder | None = None
) -> PackedGraphs:
    """The graphs of `PART` of the model's own dataset, or of `DATASET/DOMAIN:PART`."""
    spec = model.spec
    if ":" in name:
        part = PartName.parse(name)
        splits = part.load(spec.data.seed, cache, data)
        _check_features(model, splits.schema, name)
        if model.schema.descriptors:
            splits = part.load(spec.data.seed, cache, data, descriptors=True)
        return select_part(splits, part.part, part.splits)
    if spec.data_checksum:
        raise OutlandError(
            f"the model was trained on graphs in memory: name a table or DATASET/DOMAIN:PART, not '{name}'"
        )
    return select_part(load_splits(spec, cache=cache, data=data), name, spec.dataset)


def part_title(model: TrainedModel, name: str) -> str:
    """`DATASET/DOMAIN:PART` of a part, also where only `PART` is given."""
    return name if ":" in name else f"{model.spec.dataset}/{model.spec.domain}:{name}"


def _check_features(model: TrainedModel, schema: Schema, name: str) -> None:
    if (schema.node, schema.edge) != (model.schema.node, model.schema.edge):
        raise OutlandError(f"{name} has other features than the graphs that the model reads")
    if (schema.task.kind, schema.task.outputs) != (model.task.kind, model.task.outputs):
        raise OutlandError(f"{name} has labels of another task than the model's")


def load_labelled_table(
    model: TrainedModel, path: Path, smiles: str = "", targets: list[str] | None = None
) -> tuple[PackedGraphs, list[str]]:
    """The molecules of a table with labels as the model numbers its classes, and notes on rows set aside.

    Args:
        model: of molecules.
        path: the table.
        smiles: its column of SMILES; by default that of the training, else the one that can be read as such.
        targets: its columns of labels, in the order of the model's; by default they have the same names.
    """
    if model.kind != "molecules":
        raise OutlandError("this model reads graphs, not molecules: name a part of a dataset, as motif/base:test")
    columns, spec = targets or model.targets, model.spec.table
    smiles = smiles or find_smiles_column(path, columns, "" if spec is None else spec.smiles)
    if len(columns) != len(model.targets):
        raise OutlandError(f"the model predicts {', '.join(model.targets)}: name as many --target columns")
    labels = label_reader(model, path, columns)
    chirality: Literal["cip", "tags"] = "cip" if model.schema.node == CIP_ATOMS else "tags"
    table = TableSettings(str(path), smiles=smiles, target=tuple(columns), chirality=chirality)
    return read_with_labels(table, labels)


def label_reader(model: TrainedModel, path: Path, columns: list[str]) -> LabelReader:
    """The reader of the labels in these columns of a table, as the model numbers its classes."""
    spec = model.spec.table
    numbers = [parse_number(str(name)) for name in model.classes]
    numeric = None not in numbers
    names = tuple(f"{value:.15g}" if numeric else str(name) for name, value in zip(model.classes, numbers, strict=True))
    task = replace(model.task, mean=(), std=())
    merge = spec is not None and spec.merge_labels
    censored: Censored = "value" if spec is not None and spec.censored == "value" else "drop"
    return LabelReader(tuple(columns), task, names, numeric, "-" in names, has_decimal_comma(path), merge, censored)
