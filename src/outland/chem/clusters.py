"""Groups of similar molecules by their fingerprints."""

from typing import Any

import torch
from torch import Tensor

_FARTHEST = 0.65  # Tanimoto distance within which a molecule belongs to a leader


def cluster(fingerprints: list[bytes]) -> Tensor:
    """A group for each molecule: leaders are picked in order, none within reach of another; each joins its nearest.

    RDKit's leader picker does not need all pairs, so that tens of thousands of molecules take seconds.
    """
    from rdkit import DataStructs
    from rdkit.SimDivFilters.rdSimDivPickers import LeaderPicker

    vectors: list[Any] = [DataStructs.ExplicitBitVect(packed) for packed in fingerprints]  # type: ignore[call-overload]
    leaders = list(LeaderPicker().LazyBitVectorPick(vectors, len(vectors), _FARTHEST))
    chosen = [vectors[leader] for leader in leaders]
    groups = [
        max(enumerate(DataStructs.BulkTanimotoSimilarity(v, chosen)), key=lambda pair: pair[1])[0] for v in vectors
    ]
    return torch.tensor(groups)
