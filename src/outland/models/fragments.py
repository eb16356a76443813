"""Which pieces of molecules most often weigh at least one half."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from outland.chem.featurizer import parse, rdkit

STABLE = 0.5
_FEWEST_ATOMS, _FEWEST = 2, 3


@dataclass(frozen=True)
class Piece:
    """A substructure, how many molecules have it, and in how many of these its atoms weigh one half on average."""

    smiles: str
    molecules: int
    stable: int

    @property
    def share(self) -> float:
        """How often it is stable."""
        return self.stable / self.molecules

    @property
    def sure(self) -> float:
        """Lower end of Wilson's 95 % interval of the share: rare pieces must not lead by luck."""
        n, p, z = self.molecules, self.share, 1.96
        return (p + z * z / (2 * n) - z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))) / (1 + z * z / n)


def rank_pieces(molecules: Iterable[tuple[str, tuple[float, ...]]], most: int = 12) -> list[Piece]:
    """Pieces of molecules with weighted atoms, those that most surely weigh one half first.

    Left out are seldom ones, and those that weigh less in most of their molecules.

    Pieces are what is left when the bonds a synthesis would make (BRICS, Degen et al., 2008) are cut.
    """
    seen: dict[str, list[int]] = {}
    for smiles, weights in molecules:
        found: dict[str, bool] = {}
        for name, atoms in pieces(parse(smiles.strip())):
            stable = sum(weights[atom] for atom in atoms) / len(atoms) >= STABLE
            found[name] = found.get(name, False) or stable
        for name, stable in found.items():
            counts = seen.setdefault(name, [0, 0])
            counts[0] += 1
            counts[1] += stable
    found_pieces = (Piece(name, *counts) for name, counts in seen.items() if counts[0] >= _FEWEST)
    ranked = [piece for piece in found_pieces if piece.share >= STABLE]
    return sorted(ranked, key=lambda piece: (-piece.sure, -piece.molecules, piece.smiles))[:most]


def pieces(molecule: Any) -> list[tuple[str, tuple[int, ...]]]:
    """Canonical SMILES and atoms of each piece of at least two atoms."""
    from rdkit.Chem import BRICS

    chem = rdkit()
    bonds = [molecule.GetBondBetweenAtoms(*ends).GetIdx() for ends, _ in BRICS.FindBRICSBonds(molecule)]
    cut = chem.FragmentOnBonds(molecule, bonds, addDummies=False) if bonds else molecule
    parts = [atoms for atoms in chem.GetMolFrags(cut) if len(atoms) >= _FEWEST_ATOMS]
    return [(chem.MolFragmentToSmiles(molecule, list(atoms), isomericSmiles=False), atoms) for atoms in parts]
