"""Molecules as packed graphs, and in clusters."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor

from outland.chem.featurizer import Molecule
from outland.graphs import PackedGraphs
from outland.graphs.edges import to_smallest_int

_THRESHOLD = 0.65  # Tanimoto distance between any two leaders of clusters, at least


def cluster(fingerprints: list[bytes]) -> Tensor:
    """Cluster of each molecule `[G]`: that of the most similar leader, as RDKit's `LeaderPicker` picks them in order.

    The picker does not need all pairs, so that tens of thousands of molecules take seconds.
    """
    from rdkit import DataStructs
    from rdkit.SimDivFilters.rdSimDivPickers import LeaderPicker

    vectors: list[Any] = [DataStructs.ExplicitBitVect(binary) for binary in fingerprints]  # type: ignore[call-overload]
    leaders = [vectors[index] for index in LeaderPicker().LazyBitVectorPick(vectors, len(vectors), _THRESHOLD)]
    return torch.tensor([np.argmax(DataStructs.BulkTanimotoSimilarity(vector, leaders)) for vector in vectors])


def pack_molecules(
    molecules: Sequence[Molecule], y: Tensor, environment: Tensor | None = None, extra: Mapping[str, Tensor] = {}
) -> PackedGraphs:
    """Molecules as packed graphs with labels `y`; adjacent edges are each other's reverse.

    Molecules with vectors have them in `extra`: `fingerprint` `[G, 256]`, `descriptors` `[G, D]` and `counts` `[G, C]`.
    """
    edge_index = torch.from_numpy(np.concatenate([molecule.edges for molecule in molecules], axis=1))
    edge_counts = torch.tensor([molecule.edges.shape[1] for molecule in molecules])
    starts = (edge_counts.cumsum(0) - edge_counts).repeat_interleave(edge_counts)
    return PackedGraphs(
        x=torch.from_numpy(np.concatenate([molecule.atoms for molecule in molecules])),
        edge_index=to_smallest_int(edge_index),
        edge_attr=torch.from_numpy(np.concatenate([molecule.bonds for molecule in molecules])),
        node_counts=torch.tensor([len(molecule.atoms) for molecule in molecules]),
        edge_counts=edge_counts,
        reverse=to_smallest_int((torch.arange(len(starts)) - starts) ^ 1),
        y=y,
        environment=environment,
        extra={**extra, **_vectors(molecules)},
    )


def _vectors(molecules: Sequence[Molecule]) -> dict[str, Tensor]:
    """Fingerprints, descriptors and counts of molecules that have them."""
    names = ("fingerprint", "descriptors", "counts")
    columns = {name: [getattr(molecule, name) for molecule in molecules] for name in names}
    return {name: torch.from_numpy(np.stack(rows)) for name, rows in columns.items() if rows[0] is not None}


def factorize(names: Iterable[str]) -> Tensor:
    """Codes of names from 0, in order of first appearance, as pandas gives them."""
    codes = defaultdict[str, int](count().__next__)
    return torch.tensor([codes[name] for name in names], dtype=torch.long)
