"""The rows of a table, or the graphs of a dataset's part, with what each prediction rests on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from outland.chem.featurizer import parse
from outland.chem.packing import pack_molecules
from outland.chem.smiles import MoleculeOptions, read_molecules
from outland.errors import OutlandError, unknown
from outland.graphs import PackedGraphs
from outland.models.contributions import Faithfulness, contributions
from outland.models.explanations import View, stable_mask
from outland.models.model import TrainedModel
from outland.models.predicted_rows import predict_rows
from outland.models.table_predictions import trained_column
from outland.tables.columns import find_smiles_column
from outland.tables.duplicates import are_training_rows
from outland.tables.labels import parse_number
from outland.tables.reading import Cells, column_names, read_rows, require_smiles_column


@dataclass(frozen=True)
class ExplainedRow:
    """One row.

    Args:
        row: its number in the table, from 1.
        cells: the row itself.
        smiles: the molecule; empty where graphs are no molecules.
        prediction: what the model says, as `outland predict` writes it; empty where the row cannot be read.
        nodes: of each atom or node its contribution, or its weight from 0 to 1 in the stable mask.
        edges: of each bond, in RDKit's order, or edge its weight; empty where contributions are shown.
        ends: the ends of each edge; empty for a molecule.
        truth: the label, where it is known.
        problem: why the row cannot be read.
        is_training: whether the model was trained on it.
    """

    row: int
    cells: Cells
    smiles: str
    prediction: Cells
    nodes: tuple[float, ...] = ()
    edges: tuple[float, ...] = ()
    ends: tuple[tuple[int, int], ...] = ()
    truth: str = ""
    problem: str = ""
    is_training: bool = False


@dataclass(frozen=True)
class Explained:
    """Rows with what their predictions rest on.

    Args:
        rows: in the table's order.
        show: contributions or the stable mask.
        towards: what positive contributions push towards.
        faithfulness: of the contributions, where they were judged.
    """

    rows: list[ExplainedRow]
    show: View
    towards: str = ""
    faithfulness: Faithfulness | None = None


def explain_table(
    model: TrainedModel,
    path: Path,
    smiles: str,
    target: str | None = None,
    most: int = 1000,
    show: View = "contributions",
    towards: str | None = None,
) -> Explained:
    """The first `most` rows of a table of molecules.

    `target` is one of the model's targets, whose labels the table may have, or another column of labels.
    """
    if model.kind != "molecules":
        raise OutlandError("this model reads graphs, not molecules: name a part of a dataset, as motif/base:test")
    smiles = smiles or find_smiles_column(path, model.targets, trained_column(model))
    require_smiles_column(path, smiles)
    valid = {*model.targets, *column_names(path)}
    if target and target not in valid:
        raise unknown(f"target of the model or column of {path.name}", target, valid, most=10)
    number = model.target_index(target)
    target = target or model.targets[0]
    target = target if target in column_names(path) else None
    table = list(islice(read_rows(path), most))
    options = MoleculeOptions(scaffold=False, vector=True, atoms=model.schema.node)
    chunks = list(read_molecules((row[smiles] for row in table), options, f"Reading {path.name}"))
    indices = [index for chunk in chunks for index in chunk.indices]
    failures = [failure for chunk in chunks for failure in chunk.failures]
    if not indices:
        raise OutlandError(
            f"none of the {len(table):,} rows of {path} can be read ({failures[0][1]}): is '{smiles}' its column of "
            "SMILES?"
        )
    molecules = [molecule for chunk in chunks for molecule in chunk.molecules]
    graphs = pack_molecules(molecules, torch.zeros(len(molecules), 1))
    texts = [table[index][smiles] for index in indices]
    explained = _explain(model, graphs, [parse(text.strip()) for text in texts], number, show, towards)
    facts = zip(indices, explained.rows, are_training_rows(texts, model.training_hashes), strict=True)
    rows = [ExplainedRow(i + 1, table[i], table[i][smiles], {}, problem=why) for i, why in failures]
    for index, row, seen in facts:
        cells = table[index]
        truth = _truth(cells.get(target, ""), model) if target else ""
        known: dict[str, Any] = {"cells": cells, "smiles": cells[smiles], "truth": truth, "is_training": seen}
        rows.append(
            replace(row, row=index + 1, **known, edges=row.edges[::2], ends=())
        )  # the directions of a bond stand side by side
    return replace(explained, rows=sorted(rows, key=lambda row: row.row))


def _explain(
    model: TrainedModel,
    graphs: PackedGraphs,
    molecules: Sequence[Any] | None,
    target: int,
    show: View,
    towards: str | None,
) -> Explained:
    """Rows with predictions and contributions or weights, and with every directed edge."""
    edges: list[Tensor] = [torch.zeros(0)] * len(graphs)
    if show == "mask":
        nodes, edges = stable_mask(model, graphs)
        explained = Explained([], show)
    else:
        result = contributions(model, graphs, molecules, target, towards)
        nodes, explained = result.by_graph(graphs), Explained([], show, result.towards, result.faithfulness)
    ends = graphs.edge_index.long().split(graphs.edge_counts.tolist(), dim=1)
    for index, prediction in enumerate(predict_rows(model, graphs)):
        if problem := prediction.get("outland_problem", ""):
            explained.rows.append(ExplainedRow(index + 1, {}, "", {}, problem=problem))
            continue
        weights = tuple(nodes[index].tolist()), tuple(edges[index].tolist())
        pairs = tuple((source, target) for source, target in ends[index].T.tolist())
        explained.rows.append(ExplainedRow(index + 1, {}, "", prediction, *weights, pairs))
    return explained


def has_more_rows(path: Path, count: int) -> bool:
    """Whether a table has more rows than `count`."""
    return next(islice(read_rows(path), count, None), None) is not None


def explain_part(
    model: TrainedModel,
    graphs: PackedGraphs,
    target: int = 0,
    most: int = 60,
    show: View = "contributions",
    towards: str | None = None,
) -> Explained:
    """The first `most` graphs of a dataset's part, each edge once."""
    graphs = graphs.select(torch.arange(min(most, len(graphs))))
    explained = _explain(model, graphs, None, target, show, towards)
    rows = []
    for index, row in enumerate(explained.rows):
        once = [number for number, (source, end) in enumerate(row.ends) if source <= end]
        edges = tuple(row.edges[number] for number in once) if row.edges else ()
        ends = tuple(row.ends[number] for number in once)
        rows.append(replace(row, edges=edges, ends=ends, truth=label_text(model, graphs, index, target)))
    return replace(explained, rows=rows)


def label_text(model: TrainedModel, graphs: PackedGraphs, index: int, target: int = 0) -> str:
    """The label of a graph for one of the model's targets, as the model names it; empty where it is unknown."""
    labels = graphs.y[index].flatten().tolist()
    value = labels[target] if target < len(labels) else math.nan
    if math.isnan(value):
        return ""
    return str(model.classes[int(value)]) if value in range(len(model.classes)) else f"{value:g}"


def _truth(text: str, model: TrainedModel) -> str:
    """A label as the model names it; empty where it is none of its classes."""
    value = parse_number(text)
    if not model.classes:
        return "" if value is None else f"{value:g}"
    names = {str(name).lower(): str(name) for name in model.classes}
    numbers = {parse_number(str(name)): str(name) for name in model.classes}
    return names.get(text.strip().lower()) or ("" if value is None else numbers.get(value, ""))
