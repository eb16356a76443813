"""The rows of a table with what each prediction rests on."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch

from outland.chem.featurizer import Molecule
from outland.chem.smiles import MoleculeOptions, pack_molecules, read_molecules
from outland.errors import OutlandError
from outland.estimators.explaining import Weights, weigh
from outland.estimators.model import FittedModel
from outland.estimators.seen import were_seen
from outland.estimators.streaming import answers_of
from outland.tables.labels import parse_number
from outland.tables.reading import Cells, column_names, read_rows, require_columns, require_smiles_column


@dataclass(frozen=True)
class Explained:
    """One row.

    Args:
        place: its number in the table, from 1.
        cells: the row itself.
        smiles: the molecule.
        answer: what the model says, as `outland predict` writes it; empty where the row cannot be read.
        atoms: a weight from 0 to 1 for each atom.
        bonds: one for each bond, in RDKit's order.
        truth: the label, where it is known.
        problem: why the row cannot be read.
        seen: whether the model was trained with it.
    """

    place: int
    cells: Cells
    smiles: str
    answer: Cells
    atoms: tuple[float, ...] = ()
    bonds: tuple[float, ...] = ()
    truth: str = ""
    problem: str = ""
    seen: bool = False


def explain_table(
    model: FittedModel, path: Path, smiles: str, target: str | None = None, most: int = 1000
) -> list[Explained]:
    """The first `most` rows of a table."""
    if model.kind != "molecules":
        raise OutlandError("this model reads graphs, not molecules: use `explain` from Python")
    require_smiles_column(path, smiles)
    require_columns(path, [target] if target else [])
    target = target or _own_target(model, path)
    rows = list(islice(read_rows(path), most))
    found: list[Explained] = []
    for chunk in read_molecules(
        (row[smiles] for row in rows), MoleculeOptions(scaffold=False), f"Explaining {path.name}"
    ):
        answers = answers_of(model, chunk.molecules)
        split = _by_molecule(model, chunk.molecules)
        known = were_seen([rows[place][smiles] for place in chunk.indices], model.seen)
        for place, answer, (atoms, bonds), seen in zip(chunk.indices, answers, split, known, strict=True):
            row = rows[place]
            truth = _truth(row.get(target, ""), model) if target else ""
            found.append(Explained(place + 1, row, row[smiles], answer, atoms, bonds, truth, seen=seen))
        for place, reason in chunk.failures:
            found.append(Explained(place + 1, rows[place], rows[place][smiles], {}, problem=reason))
    if not any(one.answer for one in found):
        raise OutlandError(
            f"none of the {len(rows):,} rows of {path} can be read ({found[0].problem}): is '{smiles}' its column of "
            "SMILES?"
        )
    return sorted(found, key=lambda one: one.place)


def _own_target(model: FittedModel, path: Path) -> str | None:
    """The column the model was trained on, if this table has it too."""
    name = model.about.get("source", {}).get("target")
    return name if name in column_names(path) else None


def _by_molecule(
    model: FittedModel, molecules: list[Molecule]
) -> Iterable[tuple[tuple[float, ...], tuple[float, ...]]]:
    """Weights of atoms and bonds of each molecule; the two directions of a bond stand side by side."""
    if not molecules:
        return []
    graphs = pack_molecules(molecules, torch.zeros(len(molecules), 1))
    weights: Weights = weigh(model, graphs)
    atoms = weights.node.split(graphs.node_counts.tolist())
    bonds = weights.edge.split(graphs.edge_counts.tolist())
    return [(tuple(node.tolist()), tuple(edge[::2].tolist())) for node, edge in zip(atoms, bonds, strict=True)]


def _truth(text: str, model: FittedModel) -> str:
    """A label as the model names it; empty where it is none of its classes."""
    value = parse_number(text)
    if not model.classes:
        return "" if value is None else f"{value:g}"
    names = {str(one).lower(): str(one) for one in model.classes}
    return names.get(text.strip().lower()) or names.get("" if value is None else f"{value:g}", "")


def way(model: FittedModel) -> str:
    """How the weights came about, for a reader."""
    if model.method.has_masks:
        return f"the stable mask that {model.method.name} has learned: what is shaded weighs at least one half"
    return (
        f"gradient saliency, for {model.method.name} learns no mask: what is shaded moves the prediction at least half "
        "as much as the atom that moves it most"
    )
