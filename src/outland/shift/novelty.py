"""What one table of molecules has that another has not: new scaffolds, and a map of both by principal components."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from outland.chem.smiles import MoleculeOptions, read_molecules
from outland.errors import OutlandError
from outland.tables.columns import find_smiles_column
from outland.tables.reading import require_columns, smiles_texts

_MAP_SIZE = 3000  # molecules a table


@dataclass(frozen=True)
class Novelty:
    """Comparison of a second table of molecules with a first.

    Args:
        new_scaffolds: scaffolds that only the second has, with the number of its molecules that have each, most
            frequent first. A molecule without rings has none and does not count.
        scaffolds: number of different ones in the second; `molecules` of it have one.
        coordinates: of the molecules of either table on the map, at most 3,000 each `[n, 2]`.
        explained_variance: share of the fingerprints' variance that the map shows.
    """

    new_scaffolds: tuple[tuple[str, int], ...]
    scaffolds: int
    molecules: int
    coordinates: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
    explained_variance: float

    def sentence(self, first: str, second: str, names: int = 3) -> str:
        """The share of the second table with new scaffolds, and the `names` most frequent of these."""
        new = sum(count for _, count in self.new_scaffolds)
        if not self.new_scaffolds:
            return f"Every scaffold of {second} is in {first} too."
        top = ", ".join(f"{name} ({count})" for name, count in self.new_scaffolds[:names])
        return (
            f"By scaffold, {len(self.new_scaffolds):,} of the {self.scaffolds:,} of {second}, with {new:,} of its "
            f"{self.molecules:,} molecules that have one, are not in {first}; the commonest: {top}."
        )


def compare_tables(first: Path, second: Path, smiles: str) -> Novelty:
    """Read two tables of molecules; rows that cannot be read are left out."""
    (known, first_bits), (scaffolds, second_bits) = (_read(path, smiles) for path in (first, second))
    new = [(name, count) for name, count in scaffolds.items() if name not in known]
    new.sort(key=lambda entry: (-entry[1], entry[0]))
    return Novelty(tuple(new), len(scaffolds), scaffolds.total(), *_principal_map(first_bits, second_bits))


def _read(path: Path, smiles: str) -> tuple[Counter[str], npt.NDArray[np.float64]]:
    """Scaffolds with their counts, and the fingerprints of at most 3,000 evenly spaced molecules `[n, 2048]`."""
    from rdkit import DataStructs

    smiles = smiles or find_smiles_column(path)
    require_columns(path, [smiles])
    scaffolds: Counter[str] = Counter()
    fingerprints: list[bytes] = []
    for chunk in read_molecules(
        smiles_texts(path, smiles), MoleculeOptions(fingerprint=True), f"Comparing {path.name}"
    ):
        scaffolds.update(name for name in chunk.scaffolds if name)
        fingerprints += chunk.fingerprints
    if not fingerprints:
        raise OutlandError(f"no row of {path} can be read: is '{smiles}' its column of SMILES?")
    index = np.linspace(0, len(fingerprints) - 1, min(len(fingerprints), _MAP_SIZE)).astype(int)
    bits = np.zeros((len(index), 2048), dtype=np.uint8)
    for row, number in zip(bits, index, strict=True):
        DataStructs.ConvertToNumpyArray(DataStructs.ExplicitBitVect(fingerprints[number]), row)
    return scaffolds, bits.astype(np.float64)


def _principal_map(
    first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]
) -> tuple[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]], float]:
    """Both tables on the two main principal components of all fingerprints, and their share of the variance."""
    from scipy.sparse.linalg import svds

    both = np.concatenate([first, second])
    both -= both.mean(0)
    if min(both.shape) < 3 or not both.any():
        return (np.zeros((len(first), 2)), np.zeros((len(second), 2))), 0.0
    left, values, _ = svds(both, k=2, random_state=0)
    order = np.argsort(values)[::-1]
    points = left[:, order] * values[order]
    points *= np.where(points[np.abs(points).argmax(0), [0, 1]] < 0, -1.0, 1.0)  # fixes the signs, which are arbitrary
    return (points[: len(first)], points[len(first) :]), float((values**2).sum() / (both**2).sum())
