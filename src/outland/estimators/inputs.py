"""What people bring, as packed graphs: SMILES, RDKit molecules or PyG graphs, one a row."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from outland.chem.clusters import cluster
from outland.chem.featurizer import ATOMS, BONDS
from outland.chem.smiles import MoleculeOptions, factorize, pack_molecules, read_molecules
from outland.errors import OutlandError
from outland.graphs import Features, PackedGraphs, Schema, Splits, Task
from outland.tables.data_list import checked_graphs, describe_features

Kind = Literal["molecules", "graphs"]


class BadInput(OutlandError, ValueError):
    """Input that cannot be learned from or predicted; a `ValueError`, as scikit-learn's callers expect."""


@dataclass(frozen=True)
class Inputs:
    """Rows as graphs.

    Args:
        graphs: one a row, with labels of 0.
        kind: molecules, or graphs that the user had already.
        node, edge: what their features are.
        groups: a number for the scaffold, cluster and molecule of each row, as far as they were asked for.
        texts: the rows that came as SMILES.
    """

    graphs: PackedGraphs
    kind: Kind
    node: Features
    edge: Features | None
    groups: dict[str, Tensor] = field(default_factory=dict)
    texts: tuple[str, ...] = ()

    def fitting(self, schema: Schema) -> PackedGraphs:
        """The graphs, if a model with this schema can read them."""
        for name, own, known in (("node", self.node, schema.node), ("edge", self.edge, schema.edge)):
            same = (own is None) == (known is None)
            if own is not None and known is not None:
                same = own.width == known.width and (own.vocabulary is None) == (known.vocabulary is None)
            if not same:
                raise BadInput(f"the model was trained on graphs with other {name} features: {known}, not {own}")
        everyone = torch.arange(len(self.graphs))
        task = replace(schema, task=Task("regression", 1, "rmse"), environments=0)
        Splits(self.graphs, dict.fromkeys(("train", "val", "test"), everyone), task).check()
        return self.graphs


def read_inputs(rows: Any, *, scaffold: bool = False, clusters: bool = False) -> Inputs:
    """Rows of one kind as graphs; a row that cannot be read is an error that names it.

    Args:
        rows: a list, array or column.
        scaffold, clusters: find the scaffold of each molecule, or its cluster.
    """
    found = _listed(rows)
    if not found:
        raise BadInput("there are no rows")
    if hasattr(found[0], "edge_index"):
        return _graphs(found)
    return _molecules(found, MoleculeOptions(scaffold=scaffold, canonical=True, fingerprint=clusters))


def scaffold_groups(rows: Any) -> np.ndarray[Any, Any]:
    """A number for the Bemis-Murcko scaffold of each molecule, as `GroupKFold` takes them.

    >>> scaffold_groups(["c1ccccc1O", "CCO", "c1ccccc1N"]).tolist()
    [0, 1, 0]
    """
    found: np.ndarray[Any, Any] = read_inputs(rows, scaffold=True).groups["scaffold"].numpy()
    return found


def _listed(rows: Any) -> list[Any]:
    """One object a row, whatever holds them."""
    if isinstance(rows, str):
        raise BadInput("this is one SMILES; give a list of them")
    if hasattr(rows, "edge_index"):
        raise BadInput("this is one graph; give a list of them")
    shape = getattr(rows, "shape", None)
    if shape is not None and len(shape) > 1:
        if len(shape) > 2 or shape[1] != 1:
            raise BadInput(f"rows must be one SMILES, molecule or graph each, not a table of shape {tuple(shape)}")
        rows = np.asarray(rows, dtype=object).ravel()
    if not isinstance(rows, Iterable):
        raise BadInput(f"give a list of SMILES, molecules or graphs, not a {type(rows).__name__}")
    return list(rows)


def _molecules(rows: list[Any], wanted: MoleculeOptions) -> Inputs:
    chunks = list(read_molecules(rows, wanted, "Reading molecules", len(rows)))
    failures = [failure for chunk in chunks for failure in chunk.failures]
    if failures:
        place, reason = failures[0]
        shown = repr(rows[place])
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        more = f"{len(failures)} of {len(rows)} rows cannot be read; the first: " if len(failures) > 1 else ""
        raise BadInput(f"{more}row {place}: {reason} ({shown})")
    molecules = [molecule for chunk in chunks for molecule in chunk.molecules]
    groups = {"molecule": factorize(name for chunk in chunks for name in chunk.canonical)}
    if wanted.scaffold:
        groups["scaffold"] = factorize(name for chunk in chunks for name in chunk.scaffolds)
    if wanted.fingerprint:
        groups["cluster"] = cluster([one for chunk in chunks for one in chunk.fingerprints])
    texts = tuple(row for row in rows if isinstance(row, str))
    return Inputs(pack_molecules(molecules, torch.zeros(len(rows), 1)), "molecules", ATOMS, BONDS, groups, texts)


def _graphs(rows: list[Any]) -> Inputs:
    copies = checked_graphs(rows, with_environment=False)
    for graph in copies:
        graph.y = torch.zeros(1, 1)
    packed = PackedGraphs.from_data_list(copies)
    node, x = describe_features(packed.x, "node")
    edge, edge_attr = (None, None) if packed.edge_attr is None else describe_features(packed.edge_attr, "edge")
    packed = replace(packed, x=x, edge_attr=edge_attr)
    return Inputs(packed, "graphs", node, edge, {"molecule": torch.arange(len(rows))})
