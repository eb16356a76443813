"""Tanimoto similarity of fingerprints to those of training molecules, without RDKit and in bounded memory."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

KEPT, NEIGHBOURS = 5000, 3  # training fingerprints that a model keeps, and those a molecule is compared with
_BLOCK = 512
Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Neighbours:
    """Fingerprints of training molecules, packed `[n, 256]`; new molecules are compared with the three nearest."""

    fingerprints: Tensor

    @classmethod
    def fit(cls, fingerprints: Tensor, seed: int) -> "Neighbours":
        """From packed fingerprints `[G, 256]`; at most five thousand are kept."""
        order = torch.randperm(len(fingerprints), generator=torch.Generator().manual_seed(seed))
        return cls(fingerprints[order[:KEPT].sort().values].cpu().contiguous())

    def similarity(self, fingerprints: Tensor) -> Array:
        """Mean Tanimoto similarity of each new fingerprint to its three nearest ones `[G]`, from 0 to 1."""
        nearest = min(NEIGHBOURS, len(self.fingerprints))
        result = np.empty(len(fingerprints))
        for start in range(0, len(fingerprints), _BLOCK):
            similarity = self._bits.tanimoto(fingerprints[start : start + _BLOCK])
            largest = np.partition(similarity, -nearest, axis=1)[:, -nearest:]
            result[start : start + _BLOCK] = largest.mean(1)
        return result

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


def out_of_fold_similarity(fingerprints: Tensor, fold: Tensor, seed: int = 0) -> Array:
    """Similarity of each molecule to the three nearest ones of other folds `[G]`."""
    result = np.empty(len(fold))
    for number in fold.unique():
        inside = fold == number
        result[inside.numpy()] = Neighbours.fit(fingerprints[~inside], seed).similarity(fingerprints[inside])
    return result
