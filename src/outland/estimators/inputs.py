"""What people bring, as packed graphs: SMILES, RDKit molecules or PyG graphs, one a row."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from outland.chem.featurizer import BONDS, CIP_ATOMS
from outland.chem.packing import cluster, factorize, pack_molecules
from outland.chem.smiles import MoleculeOptions, read_molecules
from outland.errors import OutlandError
from outland.graphs import Features, PackedGraphs, Schema, Splits, Task
from outland.tables.data_list import infer_features, validate_data_list

Kind = Literal["molecules", "graphs"]


class BadInput(OutlandError, ValueError):
    """Input that cannot be learned from or predicted; a `ValueError`, as scikit-learn's callers expect."""


class UnusedRowsWarning(UserWarning):
    """Rows that cannot be read, or have no label: they are not trained on, and predictions of them are NaN."""


@dataclass(frozen=True)
class Inputs:
    """Rows as graphs.

    Args:
        graphs: one a row, with labels of 0.
        kind: molecules, or graphs that the user had already.
        node, edge: what their features are.
        groups: codes of the molecules and, if they were asked for, of scaffolds and clusters, one a row.
        texts: the rows that came as SMILES.
        rows: index of each graph's row among those given `[G]`.
        given: how many rows were given.
    """

    graphs: PackedGraphs
    kind: Kind
    node: Features
    edge: Features | None
    groups: dict[str, Tensor] = field(default_factory=dict)
    texts: tuple[str, ...] = ()
    rows: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    given: int = 0

    def in_all_rows(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Values of the graphs `[G, ...]` as those of all rows given; NaN for a row that could not be read."""
        if len(self.rows) == self.given:
            return values
        kind = float if values.dtype.kind in "biuf" else object
        table = np.full((self.given, *values.shape[1:]), np.nan, dtype=kind)
        table[self.rows] = values
        return table

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


def read_inputs(
    rows: Any,
    only: npt.NDArray[np.int64] | None = None,
    *,
    scaffold: bool = False,
    clusters: bool = False,
    atoms: Features = CIP_ATOMS,
) -> Inputs:
    """The rows as graphs; a warning names the first molecule that cannot be read, an error if none can.

    Args:
        rows: a list, array or column of SMILES and molecules, or of PyG graphs.
        only: indices of the rows to read; by default all.
        scaffold, clusters: compute the scaffold of each molecule, or its cluster.
        atoms: the features of the atoms of molecules.
    """
    objects = as_list(rows)
    index = np.arange(len(objects)) if only is None else only
    selected = [objects[row] for row in index]
    if hasattr(selected[0], "edge_index"):
        return replace(_graphs(selected), rows=index, given=len(objects))
    options = MoleculeOptions(scaffold=scaffold, canonical=True, fingerprint=clusters, vector=True, atoms=atoms)
    return _molecules(selected, index, len(objects), options)


def scaffold_groups(rows: Any) -> np.ndarray[Any, Any]:
    """Codes of the molecules' Bemis-Murcko scaffolds, as `GroupKFold` takes them; -1 for rows that cannot be read.

    >>> scaffold_groups(["c1ccccc1O", "CCO", "c1ccccc1N"]).tolist()
    [0, 1, 0]
    """
    inputs = read_inputs(rows, scaffold=True)
    codes = np.full(inputs.given, -1, dtype=np.int64)
    codes[inputs.rows] = inputs.groups["scaffold"].numpy()
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
    objects = list(rows)
    if not objects:
        raise BadInput("there are no rows")
    return objects


def _molecules(rows: list[Any], index: npt.NDArray[np.int64], given: int, options: MoleculeOptions) -> Inputs:
    chunks = list(read_molecules(rows, options, "Reading molecules", len(rows)))
    failures = [failure for chunk in chunks for failure in chunk.failures]
    if failures:
        _warn_unreadable(failures, rows, index)
    molecules = [molecule for chunk in chunks for molecule in chunk.molecules]
    groups = {"molecule": factorize(name for chunk in chunks for name in chunk.canonical)}
    if options.scaffold:
        groups["scaffold"] = factorize(name for chunk in chunks for name in chunk.scaffolds)
    if options.fingerprint:
        groups["cluster"] = cluster([fingerprint for chunk in chunks for fingerprint in chunk.fingerprints])
    readable = [row for chunk in chunks for row in chunk.indices]
    texts = tuple(rows[row] for row in readable if isinstance(rows[row], str))
    graphs = pack_molecules(molecules, torch.zeros(len(molecules), 1))
    return Inputs(graphs, "molecules", options.atoms, BONDS, groups, texts, index[readable], given)


def _warn_unreadable(failures: list[tuple[int, str]], rows: list[Any], index: npt.NDArray[np.int64]) -> None:
    """Warn of rows that cannot be read; an error if there are no others."""
    row, reason = failures[0]
    value = repr(rows[row])
    value = value if len(value) <= 60 else value[:57] + "..."
    first = f"row {index[row]}: {reason} ({value})"
    if len(failures) == len(rows):
        raise BadInput(f"none of {len(rows)} rows can be read; the first: {first}" if len(rows) > 1 else first)
    count = f"{len(failures)} of {len(rows)} rows cannot be read"
    warnings.warn(f"{count}, and are left out (their predictions are NaN); the first: {first}", UnusedRowsWarning, 6)


def _graphs(rows: list[Any]) -> Inputs:
    copies = validate_data_list(rows, with_environment=False)
    for graph in copies:
        graph.y = torch.zeros(1, 1)
    node, edge, packed = infer_features(PackedGraphs.from_data_list(copies))
    return Inputs(packed, "graphs", node, edge, {"molecule": torch.arange(len(rows))})
