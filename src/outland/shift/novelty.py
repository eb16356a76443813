"""What is new in one table of molecules beside another: scaffolds never seen, and where both lie on one map."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from outland.chem.smiles import Wanted, read_molecules
from outland.errors import OutlandError
from outland.tables.reading import need, read_rows

_MOST = 3000  # molecules a table on the map


@dataclass(frozen=True)
class Novelty:
    """Two tables of molecules beside each other.

    Args:
        unseen: scaffolds of the second that the first has not, with how many molecules have each, most first. A
            molecule without rings has none and does not count.
        scaffolds: how many different ones the second has; `molecules` of it have one.
        maps: a point for each molecule of either table, at most 3,000 each `[n, 2]`.
        kept: share of the fingerprints' variance that the map shows.
    """

    unseen: tuple[tuple[str, int], ...]
    scaffolds: int
    molecules: int
    maps: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
    kept: float

    def sentence(self, first: str, second: str, names: int = 3) -> str:
        """How much of the second table is new."""
        new = sum(count for _, count in self.unseen)
        if not self.unseen:
            return f"Every scaffold of {second} is in {first} too."
        top = ", ".join(f"{name} ({count})" for name, count in self.unseen[:names])
        return (
            f"By scaffold, {len(self.unseen):,} of the {self.scaffolds:,} of {second}, with {new:,} of its "
            f"{self.molecules:,} molecules that have one, are not in {first}; the commonest: {top}."
        )


def compare_tables(first: Path, second: Path, smiles: str) -> Novelty:
    """Read two tables of molecules; rows that cannot be read are left out."""
    sides = [_read(path, smiles) for path in (first, second)]
    known = sides[0][0]
    unseen = sorted(
        ((name, count) for name, count in sides[1][0].items() if name not in known), key=lambda one: (-one[1], one[0])
    )
    maps, kept = _map(sides[0][1], sides[1][1])
    return Novelty(tuple(unseen), len(sides[1][0]), sides[1][0].total(), maps, kept)


def _read(path: Path, smiles: str) -> tuple[Counter[str], npt.NDArray[np.float64]]:
    """Scaffolds with their counts, and the fingerprints of some molecules, drawn evenly over the table."""
    from rdkit import DataStructs

    need(path, [smiles])
    scaffolds: Counter[str] = Counter()
    prints: list[bytes] = []
    rows = (row[smiles] for row in read_rows(path))
    for chunk in read_molecules(rows, Wanted(fingerprint=True), f"Comparing {path.name}"):
        scaffolds.update(name for name in chunk.scaffolds if name)
        prints += chunk.fingerprints
    if not prints:
        raise OutlandError(f"no row of {path} can be read: is '{smiles}' its column of SMILES?")
    drawn = [prints[place] for place in np.linspace(0, len(prints) - 1, min(len(prints), _MOST)).astype(int)]
    bits = np.zeros((len(drawn), 2048), dtype=np.uint8)
    for row, one in zip(bits, drawn, strict=True):
        DataStructs.ConvertToNumpyArray(DataStructs.ExplicitBitVect(one), row)
    return scaffolds, bits.astype(np.float64)


def _map(
    first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]
) -> tuple[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]], float]:
    """The two directions in which the fingerprints of both tables vary most, and how much of the variance they are."""
    from scipy.sparse.linalg import svds

    both = np.concatenate([first, second])
    both -= both.mean(0)
    if min(both.shape) < 3 or not both.any():
        return (np.zeros((len(first), 2)), np.zeros((len(second), 2))), 0.0
    left, values, _ = svds(both, k=2, random_state=0)
    order = np.argsort(values)[::-1]
    points = left[:, order] * values[order]
    points *= np.where(points[np.abs(points).argmax(0), [0, 1]] < 0, -1.0, 1.0)  # the same way round every time
    return (points[: len(first)], points[len(first) :]), float((values**2).sum() / (both**2).sum())
