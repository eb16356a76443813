"""Molecules as graphs: OGB's nine atom and three bond fields, with the vocabulary fixed here."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from outland.errors import OutlandError
from outland.graphs import Features

# The values of each field, in order; one more place at the end of most is for anything else.
_CHIRALITY = ("CHI_UNSPECIFIED", "CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW", "CHI_OTHER")
_HYBRIDISATION = ("SP", "SP2", "SP3", "SP3D", "SP3D2")
_BOND_TYPE = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
_STEREO = ("STEREONONE", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS", "STEREOANY")
_MOST_ATOMIC_NUMBER, _MOST_DEGREE, _MOST_CHARGE, _MOST_HYDROGENS, _MOST_RADICALS = 118, 10, 5, 8, 4

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
    """A molecule as arrays: atoms `[n, 9]`, bonds as edges both ways `[2, 2m]`, bond features `[2m, 3]`."""

    atoms: Array
    edges: npt.NDArray[np.int32]
    bonds: Array


def rdkit() -> Any:
    """RDKit's `Chem`, quiet, or a sentence on how to get it."""
    try:
        from rdkit import Chem, rdBase
    except ImportError:
        raise OutlandError("molecules need RDKit: pip install 'outland[molecules]'") from None
    rdBase.DisableLog("rdApp.*")
    return Chem


def rdkit_version() -> str:
    """RDKit's version, on which features and scaffolds may depend."""
    rdkit()
    from rdkit import rdBase

    return str(rdBase.rdkitVersion)


def parse(smiles: str, lenient: bool = False) -> Any:
    """The RDKit molecule of a SMILES, or None.

    A lenient parse takes molecules with more bonds at an atom than the valence model allows, as older versions of
    RDKit did: some metal complexes of the HIV screen.
    """
    chem = rdkit()
    molecule = chem.MolFromSmiles(smiles)
    if molecule is not None or not lenient:
        return molecule
    molecule = chem.MolFromSmiles(smiles, sanitize=False)
    if molecule is None:
        return None
    molecule.UpdatePropertyCache(strict=False)
    rules = chem.SanitizeFlags.SANITIZE_ALL ^ chem.SanitizeFlags.SANITIZE_PROPERTIES
    try:
        chem.SanitizeMol(molecule, rules)
    except ValueError:
        return None
    return molecule


def featurise(molecule: Any) -> Molecule:
    """Arrays of an RDKit molecule."""
    atoms = np.array([_atom(atom) for atom in molecule.GetAtoms()], dtype=np.uint8).reshape(-1, 9)
    bonds = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), *_bond(bond)) for bond in molecule.GetBonds()]
    table = np.array(bonds, dtype=np.int32).reshape(-1, 5)
    both = np.repeat(table, 2, axis=0)
    both[1::2, :2] = table[:, 1::-1]
    return Molecule(atoms, np.ascontiguousarray(both[:, :2].T), both[:, 2:].astype(np.uint8))


def _place(values: tuple[str, ...], name: str) -> int:
    return values.index(name) if name in values else len(values)


def _capped(value: int, most: int) -> int:
    return value if 0 <= value <= most else most + 1


def _atom(atom: Any) -> tuple[int, ...]:
    number = atom.GetAtomicNum()
    charge = atom.GetFormalCharge()
    return (
        number - 1 if 1 <= number <= _MOST_ATOMIC_NUMBER else _MOST_ATOMIC_NUMBER,
        _place(_CHIRALITY, atom.GetChiralTag().name),
        _capped(atom.GetTotalDegree(), _MOST_DEGREE),
        _capped(charge + _MOST_CHARGE, 2 * _MOST_CHARGE),
        _capped(atom.GetTotalNumHs(), _MOST_HYDROGENS),
        _capped(atom.GetNumRadicalElectrons(), _MOST_RADICALS),
        _place(_HYBRIDISATION, atom.GetHybridization().name),
        int(atom.GetIsAromatic()),
        int(atom.IsInRing()),
    )


def _bond(bond: Any) -> tuple[int, ...]:
    stereo = bond.GetStereo().name
    return (
        _place(_BOND_TYPE, bond.GetBondType().name),
        _STEREO.index(stereo) if stereo in _STEREO else _STEREO.index("STEREOANY"),
        int(bond.GetIsConjugated()),
    )
