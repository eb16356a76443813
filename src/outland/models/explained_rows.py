"""The rows of a table, or the graphs of a dataset's part, with what each prediction rests on."""

import math
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch

from outland.chem.smiles import MoleculeOptions, pack_molecules, read_molecules
from outland.errors import OutlandError
from outland.graphs import PackedGraphs
from outland.models.explanations import explain_weights
from outland.models.model import TrainedModel
from outland.models.predicted_rows import predict_molecules, predict_rows
from outland.models.table_predictions import trained_column
from outland.tables.columns import find_smiles_column
from outland.tables.duplicates import are_training_rows
from outland.tables.labels import parse_number
from outland.tables.reading import Cells, column_names, read_rows, require_columns, require_smiles_column


@dataclass(frozen=True)
class ExplainedRow:
    """One row.

    Args:
        row: its number in the table, from 1.
        cells: the row itself.
        smiles: the molecule; empty where graphs are no molecules.
        prediction: what the model says, as `outland predict` writes it; empty where the row cannot be read.
        node_weights: a weight from 0 to 1 for each atom or node.
        edge_weights: one for each bond, in RDKit's order, or edge.
        edges: the ends of each edge.
        truth: the label, where it is known.
        problem: why the row cannot be read.
        is_training: whether the model was trained on it.
    """

    row: int
    cells: Cells
    smiles: str
    prediction: Cells
    node_weights: tuple[float, ...] = ()
    edge_weights: tuple[float, ...] = ()
    edges: tuple[tuple[int, int], ...] = ()
    truth: str = ""
    problem: str = ""
    is_training: bool = False


def explain_table(
    model: TrainedModel, path: Path, smiles: str, target: str | None = None, most: int = 1000
) -> list[ExplainedRow]:
    """The first `most` rows of a table of molecules; `target` is its column of labels, by default the model's."""
    if model.kind != "molecules":
        raise OutlandError("this model reads graphs, not molecules: name a part of a dataset, as motif/base:test")
    smiles = smiles or find_smiles_column(path, model.targets, trained_column(model))
    require_smiles_column(path, smiles)
    require_columns(path, [target] if target else [])
    number = model.target_index(target)
    target = target or (model.targets[0] if model.targets[0] in column_names(path) else None)
    table = list(islice(read_rows(path), most))
    rows: list[ExplainedRow] = []
    for chunk in read_molecules(
        (row[smiles] for row in table), MoleculeOptions(scaffold=False, vector=True), f"Explaining {path.name}"
    ):
        texts = [table[index][smiles] for index in chunk.indices]
        known = are_training_rows(texts, model.training_hashes)
        predictions, weights = predict_molecules(model, chunk.molecules), []
        if chunk.molecules:
            graphs = pack_molecules(chunk.molecules, torch.zeros(len(chunk.molecules), 1))
            weights = explain_weights(model, graphs, number).by_graph(graphs)
        for index, prediction, (atoms, bonds), seen in zip(chunk.indices, predictions, weights, known, strict=True):
            cells = table[index]
            rows.append(
                ExplainedRow(
                    index + 1,
                    cells,
                    cells[smiles],
                    {} if "outland_problem" in prediction else prediction,
                    tuple(atoms.tolist()),
                    tuple(bonds[::2].tolist()),  # the two directions of a bond stand side by side
                    truth=_truth(cells.get(target, ""), model) if target else "",
                    problem=prediction.get("outland_problem", ""),
                    is_training=seen,
                )
            )
        rows += [ExplainedRow(i + 1, table[i], table[i][smiles], {}, problem=why) for i, why in chunk.failures]
    if not any(row.prediction for row in rows):
        raise OutlandError(
            f"none of the {len(table):,} rows of {path} can be read ({rows[0].problem}): is '{smiles}' its column of "
            "SMILES?"
        )
    return sorted(rows, key=lambda row: row.row)


def has_more_rows(path: Path, count: int) -> bool:
    """Whether a table has more rows than `count`."""
    return next(islice(read_rows(path), count, None), None) is not None


def explain_part(model: TrainedModel, graphs: PackedGraphs, target: int = 0, most: int = 60) -> list[ExplainedRow]:
    """The first `most` graphs of a dataset's part, each edge once."""
    graphs = graphs.select(torch.arange(min(most, len(graphs))))
    predictions, rows = predict_rows(model, graphs), []
    weights = explain_weights(model, graphs, target).by_graph(graphs)
    ends = graphs.edge_index.long().split(graphs.edge_counts.tolist(), dim=1)
    for index, (prediction, (node, edge), pairs) in enumerate(zip(predictions, weights, ends, strict=True)):
        once = pairs[0] <= pairs[1]
        rows.append(
            ExplainedRow(
                index + 1,
                {},
                "",
                prediction,
                tuple(node.tolist()),
                tuple(edge[once].tolist()),
                tuple((source, target) for source, target in pairs[:, once].T.tolist()),
                truth=label_text(model, graphs, index, target),
            )
        )
    return rows


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
