"""Ring systems and functional groups of molecules, ranked by what they contribute."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean, stdev
from typing import Any

from outland.chem.featurizer import parse, rdkit

_FEWEST = 3  # molecules that have a piece
# Atoms of functional groups: heteroatoms outside aromatic rings, carbons with a double or triple bond to one of these
# or to another carbon, and carbons with single bonds to two heteroatoms (after Ertl, J. Cheminform. 9, 36, 2017).
_GROUP_ATOMS = ("[!#6;!#1;!a]", "[#6;!a]=,#[!#6;!a]", "[#6;!a]=,#[#6;!a]", "[CX4](-[O,N,S;X2,X3])-[O,N,S;X2,X3]")


@dataclass(frozen=True)
class Piece:
    """A substructure and its effect: the sum of its atoms' contributions, mean over the molecules that have it.

    Args:
        smiles: of the piece; a functional group has the atoms that it is bound to with it.
        molecules: how many have it.
        effect: the mean.
        error: standard error of the mean over molecules.
    """

    smiles: str
    molecules: int
    effect: float
    error: float

    @property
    def sure(self) -> float:
        """The end of the effect's 95% interval that is nearer to 0; 0 where the interval holds it."""
        return math.copysign(max(0.0, abs(self.effect) - 1.96 * self.error), self.effect)


def rank_pieces(molecules: Iterable[tuple[str, Sequence[float]]], most: int = 8) -> tuple[list[Piece], list[Piece]]:
    """Pieces of molecules with contributions of atoms that raise the prediction, and those that lower it.

    The surest come first: rare pieces do not lead by luck, and those whose interval holds 0 are left out.
    """
    effects: dict[str, list[float]] = {}
    for smiles, values in molecules:
        inside: dict[str, list[float]] = {}
        for name, atoms in pieces(parse(smiles.strip())):
            inside.setdefault(name, []).append(sum(values[atom] for atom in atoms))
        for name, sums in inside.items():
            effects.setdefault(name, []).append(fmean(sums))
    ranked = [
        Piece(name, len(values), fmean(values), stdev(values) / math.sqrt(len(values)))
        for name, values in effects.items()
        if len(values) >= _FEWEST
    ]
    ranked.sort(key=lambda piece: (-abs(piece.sure), -piece.molecules, piece.smiles))
    up, down = ([piece for piece in ranked if sign * piece.sure > 0][:most] for sign in (1, -1))
    return up, down


def pieces(molecule: Any) -> list[tuple[str, tuple[int, ...]]]:
    """SMILES and atoms of each ring system and functional group; the SMILES of a group shows what it is bound to."""
    found = [(_smiles(molecule, atoms), tuple(sorted(atoms))) for atoms in _ring_systems(molecule)]
    for atoms in _functional_groups(molecule):
        bound = {n.GetIdx() for atom in atoms for n in molecule.GetAtomWithIdx(atom).GetNeighbors()}
        found.append((_smiles(molecule, atoms | bound), tuple(sorted(atoms))))
    return found


def _smiles(molecule: Any, atoms: set[int]) -> str:
    name: str = rdkit().MolFragmentToSmiles(molecule, sorted(atoms), isomericSmiles=False)
    return name


def _ring_systems(molecule: Any) -> list[set[int]]:
    """Rings, those that share an atom as one."""
    systems: list[set[int]] = []
    for ring in map(set, molecule.GetRingInfo().AtomRings()):
        shared = [system for system in systems if system & ring]
        systems = [system for system in systems if not system & ring] + [ring.union(*shared)]
    return systems


def _functional_groups(molecule: Any) -> list[set[int]]:
    """Connected atoms of functional groups."""
    marked = {match[0] for pattern in _patterns() for match in molecule.GetSubstructMatches(pattern)}
    marked |= {match[1] for match in molecule.GetSubstructMatches(_patterns()[2])}
    groups: list[set[int]] = []
    while marked:
        group, border = set(), {min(marked)}
        while border:
            group |= border
            neighbours = (n.GetIdx() for atom in border for n in molecule.GetAtomWithIdx(atom).GetNeighbors())
            border = (set(neighbours) & marked) - group
        groups.append(group)
        marked -= group
    return groups


@lru_cache
def _patterns() -> list[Any]:
    return [rdkit().MolFromSmarts(pattern) for pattern in _GROUP_ATOMS]
