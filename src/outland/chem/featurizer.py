"""Molecules as arrays: OGB's nine atom and three bond fields, with a fixed vocabulary."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from outland.errors import OutlandError
from outland.graphs import Features

# The values of each field, in order; most fields have one more category, the last, for any other value.
_CHIRALITY = ("CHI_UNSPECIFIED", "CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW", "CHI_OTHER")
_HYBRIDIZATION = ("SP", "SP2", "SP3", "SP3D", "SP3D2")
_BOND_TYPE = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
_STEREO = ("STEREONONE", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS")  # any other: STEREOANY
_MAX_ATOMIC_NUMBER, _MAX_DEGREE, _MAX_CHARGE, _MAX_HYDROGENS, _MAX_RADICALS = 118, 10, 5, 8, 4

ATOMS = Features(9, (119, 5, 12, 12, 10, 6, 6, 2, 2))
BONDS = Features(3, (5, 6, 2))
ATOM_FIELDS = (
    "atomic number",
    "chirality",
    "degree",
    "formal charge",
    "hydrogens",
    "radical electrons",
    "hybridisation",
    "aromatic",
    "in a ring",
)
BOND_FIELDS = ("type", "stereo", "conjugated")

Array = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Molecule:
    """A molecule of `n` atoms and `m` bonds: atoms `[n, 9]`, directed edges `[2, 2m]`, bond features `[2m, 3]`."""

    atoms: Array
    edges: npt.NDArray[np.int32]
    bonds: Array


def rdkit() -> Any:
    """The module `rdkit.Chem`, with RDKit's log disabled; an `OutlandError` where it is not installed."""
    try:
        from rdkit import Chem, rdBase
    except ImportError:
        raise OutlandError(
            "molecules need RDKit: pip install 'outland[molecules]', "
            "or prepare them elsewhere with `outland data prepare --out` and `outland data import` them here"
        ) from None
    rdBase.DisableLog("rdApp.*")
    return Chem


def rdkit_version() -> str | None:
    """RDKit's version, on which features and scaffolds may depend; None where it is not installed."""
    try:
        from rdkit import rdBase
    except ImportError:
        return None
    return str(rdBase.rdkitVersion)


def parse(smiles: str, lenient: bool = False) -> Any:
    """The RDKit molecule of a SMILES, or None.

    A lenient parse accepts atoms with more bonds than the valence model allows, as older versions of RDKit did: some
    metal complexes of the HIV screen have them.
    """
    chem = rdkit()
    molecule = chem.MolFromSmiles(smiles)
    if molecule is not None or not lenient:
        return molecule
    molecule = chem.MolFromSmiles(smiles, sanitize=False)
    if molecule is None:
        return None
    molecule.UpdatePropertyCache(strict=False)
    try:
        chem.SanitizeMol(molecule, chem.SanitizeFlags.SANITIZE_ALL ^ chem.SanitizeFlags.SANITIZE_PROPERTIES)
    except ValueError:
        return None
    return molecule


def featurize(molecule: Any) -> Molecule:
    """The arrays of an RDKit molecule; the two directions of a bond are adjacent edges."""
    atoms = np.array([_atom(atom) for atom in molecule.GetAtoms()], dtype=np.uint8).reshape(-1, 9)
    bonds = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), *_bond(bond)) for bond in molecule.GetBonds()]
    forward = np.array(bonds, dtype=np.int32).reshape(-1, 5)
    directed = np.repeat(forward, 2, axis=0)
    directed[1::2, :2] = forward[:, 1::-1]
    return Molecule(atoms, np.ascontiguousarray(directed[:, :2].T), directed[:, 2:].astype(np.uint8))


def _category(values: tuple[str, ...], name: str) -> int:
    return values.index(name) if name in values else len(values)


def _capped(value: int, maximum: int) -> int:
    return value if 0 <= value <= maximum else maximum + 1


def _atom(atom: Any) -> tuple[int, ...]:
    return (
        _capped(atom.GetAtomicNum() - 1, _MAX_ATOMIC_NUMBER - 1),
        _category(_CHIRALITY, atom.GetChiralTag().name),
        _capped(atom.GetTotalDegree(), _MAX_DEGREE),
        _capped(atom.GetFormalCharge() + _MAX_CHARGE, 2 * _MAX_CHARGE),
        _capped(atom.GetTotalNumHs(), _MAX_HYDROGENS),
        _capped(atom.GetNumRadicalElectrons(), _MAX_RADICALS),
        _category(_HYBRIDIZATION, atom.GetHybridization().name),
        int(atom.GetIsAromatic()),
        int(atom.IsInRing()),
    )


def _bond(bond: Any) -> tuple[int, ...]:
    return (
        _category(_BOND_TYPE, bond.GetBondType().name),
        _category(_STEREO, bond.GetStereo().name),
        int(bond.GetIsConjugated()),
    )
