"""What people bring, as packed graphs: SMILES, RDKit molecules or PyG graphs, one a row."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from outland.chem.featurizer import ATOMS, BONDS
from outland.chem.smiles import MoleculeOptions, cluster, factorize, pack_molecules, read_molecules
from outland.errors import OutlandError
from outland.graphs import Features, PackedGraphs, Schema, Splits, Task
from outland.tables.data_list import infer_features, validate_data_list

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
        groups: codes of the molecules and, if they were asked for, of scaffolds and clusters, one a row.
        texts: the rows that came as SMILES.
    """

    graphs: PackedGraphs
    kind: Kind
    node: Features
    edge: Features | None
    groups: dict[str, Tensor] = field(default_factory=dict)
    texts: tuple[str, ...] = ()

    @property
    def columns(self) -> dict[str, Tensor]:
        """One value a row that a split may go by: the groups, and the size."""
        return {**self.groups, "size": self.graphs.node_counts}

    def matching(self, schema: Schema) -> PackedGraphs:
        """The graphs, if a model with this schema can read them."""
        for name, given, known in (("node", self.node, schema.node), ("edge", self.edge, schema.edge)):
            same = (given is None) == (known is None)
            if given is not None and known is not None:
                same = given.width == known.width and (given.vocabulary is None) == (known.vocabulary is None)
            if not same:
                raise BadInput(f"the model was trained on graphs with other {name} features: {known}, not {given}")
        every_row = torch.arange(len(self.graphs))
        unlabelled = replace(schema, task=Task("regression", 1, "rmse"), environments=0)
        Splits(self.graphs, dict.fromkeys(("train", "val", "test"), every_row), unlabelled).check()
        return self.graphs


def read_inputs(rows: Any, *, scaffold: bool = False, clusters: bool = False) -> Inputs:
    """The rows as graphs; a row that cannot be read is an error that names it.

    Args:
        rows: a list, array or column of SMILES and molecules, or of PyG graphs.
        scaffold, clusters: compute the scaffold of each molecule, or its cluster.
    """
    objects = as_list(rows)
    if not objects:
        raise BadInput("there are no rows")
    if hasattr(objects[0], "edge_index"):
        return _graphs(objects)
    return _molecules(objects, MoleculeOptions(scaffold=scaffold, canonical=True, fingerprint=clusters, vector=True))


def scaffold_groups(rows: Any) -> np.ndarray[Any, Any]:
    """Codes of the molecules' Bemis-Murcko scaffolds, as `GroupKFold` takes them.

    >>> scaffold_groups(["c1ccccc1O", "CCO", "c1ccccc1N"]).tolist()
    [0, 1, 0]
    """
    codes: np.ndarray[Any, Any] = read_inputs(rows, scaffold=True).groups["scaffold"].numpy()
    return codes


def as_list(rows: Any) -> list[Any]:
    """Rows of any shape of container as a list."""
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


def _molecules(rows: list[Any], options: MoleculeOptions) -> Inputs:
    chunks = list(read_molecules(rows, options, "Reading molecules", len(rows)))
    failures = [failure for chunk in chunks for failure in chunk.failures]
    if failures:
        index, reason = failures[0]
        value = repr(rows[index])
        value = value if len(value) <= 60 else value[:57] + "..."
        more = f"{len(failures)} of {len(rows)} rows cannot be read; the first: " if len(failures) > 1 else ""
        raise BadInput(f"{more}row {index}: {reason} ({value})")
    molecules = [molecule for chunk in chunks for molecule in chunk.molecules]
    groups = {"molecule": factorize(name for chunk in chunks for name in chunk.canonical)}
    if options.scaffold:
        groups["scaffold"] = factorize(name for chunk in chunks for name in chunk.scaffolds)
    if options.fingerprint:
        groups["cluster"] = cluster([fingerprint for chunk in chunks for fingerprint in chunk.fingerprints])
    texts = tuple(row for row in rows if isinstance(row, str))
    return Inputs(pack_molecules(molecules, torch.zeros(len(rows), 1)), "molecules", ATOMS, BONDS, groups, texts)


def _graphs(rows: list[Any]) -> Inputs:
    copies = validate_data_list(rows, with_environment=False)
    for graph in copies:
        graph.y = torch.zeros(1, 1)
    node, edge, packed = infer_features(PackedGraphs.from_data_list(copies))
    return Inputs(packed, "graphs", node, edge, {"molecule": torch.arange(len(rows))})
