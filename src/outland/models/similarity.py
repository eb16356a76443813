"""Tanimoto similarity of fingerprints to those of training molecules, without RDKit and in bounded memory."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

KEPT, NEIGHBOURS = 5000, 3  # training fingerprints that a model keeps, and those a molecule is compared with
_BLOCK = 512
_EXCLUDED = -1.0  # in place of a similarity that does not count
Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Neighbours:
    """Fingerprints of training molecules, packed `[n, 256]`; new molecules are compared with the three nearest."""

    fingerprints: Tensor

    @classmethod
    def fit(cls, fingerprints: Tensor, seed: int) -> "Neighbours":
        """From packed fingerprints `[G, 256]`; at most five thousand are kept."""
        return cls(fingerprints[_drawn(len(fingerprints), seed)].cpu().contiguous())

    def similarity(self, fingerprints: Tensor) -> Array:
        """Mean Tanimoto similarity of each new fingerprint to its three nearest ones `[G]`, from 0 to 1."""
        blocks = fingerprints.split(_BLOCK)
        return np.concatenate([np.zeros(0), *(_nearest(self._bits.tanimoto(block)) for block in blocks)])

    @cached_property
    def _bits(self) -> "BitColumns":
        return BitColumns(self.fingerprints)


class BitColumns:
    """Packed fingerprints `[n, 256]`, ready to be compared with others."""

    def __init__(self, fingerprints: Tensor) -> None:
        bits = np.unpackbits(fingerprints.cpu().numpy(), axis=1)
        self._columns = np.ascontiguousarray(bits.T).astype(np.int16)  # [2048, n], for sparse products
        self._counts = bits.sum(1, dtype=np.float32)

    def tanimoto(self, fingerprints: Tensor) -> npt.NDArray[np.float32]:
        """Tanimoto similarity of other fingerprints `[m, 256]` to each of these `[m, n]`."""
        from scipy.sparse import csr_array

        bits = np.unpackbits(fingerprints.cpu().numpy(), axis=1)
        shared = (csr_array(bits, dtype=np.int16) @ self._columns).astype(np.float32)
        similarity: npt.NDArray[np.float32] = shared / np.maximum(
            bits.sum(1, dtype=np.float32)[:, None] + self._counts - shared, 1
        )
        return similarity


def out_of_group_similarity(fingerprints: Tensor, groups: Tensor, seed: int = 0) -> Array:
    """Similarity of each molecule to the three nearest ones of other groups `[G]`, of those that `Neighbours` keeps.

    A molecule of a new group is compared with all training molecules. Those of the other folds alone would be fewer:
    molecules out of fold would look less familiar than new ones do, by more than their errors are larger.

    Args:
        fingerprints: packed `[G, 256]`.
        groups: a number for the scaffold of each `[G]`.
        seed: of what is kept.
    """
    kept = _drawn(len(fingerprints), seed)
    bits, parts = BitColumns(fingerprints[kept]), [np.zeros(0)]
    for block, block_groups in zip(fingerprints.split(_BLOCK), groups.split(_BLOCK), strict=True):
        similarity = bits.tanimoto(block)
        similarity[(block_groups[:, None] == groups[kept]).numpy()] = _EXCLUDED
        parts.append(_nearest(similarity))
    return np.concatenate(parts)


def _drawn(count: int, seed: int) -> Tensor:
    """Indices of the molecules that are kept, in order."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    return order[:KEPT].sort().values


def _nearest(similarity: npt.NDArray[np.float32]) -> Array:
    """Mean of the three largest numbers of each row `[m, n]`, or of those that there are; 0 without any."""
    nearest = min(NEIGHBOURS, similarity.shape[1])
    largest = np.partition(similarity, -nearest, axis=1)[:, -nearest:]
    known = largest > _EXCLUDED
    return np.asarray(np.where(known, largest, 0).sum(1, dtype=np.float64) / np.maximum(known.sum(1), 1))
