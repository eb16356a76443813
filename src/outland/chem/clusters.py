"""Clusters of molecules with similar fingerprints."""

from typing import Any

import torch
from torch import Tensor

_THRESHOLD = 0.65  # Tanimoto distance between any two leaders, at least


def cluster(fingerprints: list[bytes]) -> Tensor:
    """Cluster of each molecule `[G]`: that of the most similar leader, as RDKit's `LeaderPicker` picks them in order.

    The picker does not need all pairs, so that tens of thousands of molecules take seconds.
    """
    from rdkit import DataStructs
    from rdkit.SimDivFilters.rdSimDivPickers import LeaderPicker

    vectors: list[Any] = [DataStructs.ExplicitBitVect(binary) for binary in fingerprints]  # type: ignore[call-overload]
    picks = LeaderPicker().LazyBitVectorPick(vectors, len(vectors), _THRESHOLD)
    leaders = [vectors[index] for index in picks]
    similarities = (DataStructs.BulkTanimotoSimilarity(vector, leaders) for vector in vectors)
    return torch.tensor([max(enumerate(row), key=lambda pair: pair[1])[0] for row in similarities])
