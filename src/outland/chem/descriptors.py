"""The vector of a molecule: a Morgan fingerprint and a fast set of RDKit's 2D descriptors, each named and versioned."""

from functools import lru_cache
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

FINGERPRINT, DESCRIPTORS = "morgan2-2048", "rdkit2d-2"
BITS = 2048
_RADIUS = 2
_LARGEST = 1e6  # descriptors beyond it are clipped

# Functions of `rdkit.Chem.rdMolDescriptors`, in C++ and of a few microseconds; all 217 of RDKit take far longer. On
# scaffold folds of BBBP's training rows a forest has a ROC-AUC of 0.882 with the numbers and surfaces, 0.894 with the
# charges too, and 0.895 with all 217; a Gaussian process has an RMSE of 0.71 on ESOL without charges and 0.63 with.
_NUMBERS = (
    "LabuteASA", "TPSA", "ExactMolWt", "FractionCSP3", "HallKierAlpha", "Kappa1", "Chi0n", "Chi0v", "Chi1n", "Chi1v",
    "NumAtoms", "NumHeavyAtoms", "NumHeteroatoms", "NumHBD", "NumLipinskiHBA", "NumLipinskiHBD", "NumAmideBonds",
    "NumAtomStereoCenters", "NumUnspecifiedAtomStereoCenters", "NumRings", "NumAromaticRings", "NumAliphaticRings",
    "NumSaturatedRings", "NumHeterocycles", "NumAromaticHeterocycles", "NumSpiroAtoms", "NumBridgeheadAtoms",
)  # fmt: skip
# Surface by logP, refractivity and partial charge: functions with several values.
_SURFACES = {"SlogP_VSA_": 12, "SMR_VSA_": 10, "PEOE_VSA_": 14}
# The last is that of all atoms; RDKit's MinAbsPartialCharge is the smaller one of the two extremes.
_CHARGE = "_GasteigerCharge"  # of an atom
_CHARGES = ("MaxPartialCharge", "MinPartialCharge", "MaxAbsPartialCharge", "LeastAbsPartialCharge")

DESCRIPTOR_NAMES = (
    "CrippenLogP",
    "CrippenMR",
    *_NUMBERS,
    *(f"{name.rstrip('_')}{number}" for name, size in _SURFACES.items() for number in range(1, size + 1)),
    *_CHARGES,
)

Bits = npt.NDArray[np.uint8]
Values = npt.NDArray[np.float32]


def fingerprint(molecule: Any) -> Bits:
    """The Morgan fingerprint of an RDKit molecule, packed `[256]`: `np.unpackbits` gives its 2048 bits in order."""
    from rdkit.DataStructs import BitVectToBinaryText

    little = np.frombuffer(BitVectToBinaryText(morgan_generator().GetFingerprint(molecule)), np.uint8)
    return _REVERSED_BITS[little]


def bit_atoms(molecule: Any) -> list[tuple[int, tuple[int, ...]]]:
    """The environments that set the bits of the fingerprint: the bit of each, and its atoms.

    Several environments may set the same bit; a bit is off only without all of them.
    """
    from rdkit.Chem.rdFingerprintGenerator import AdditionalOutput

    output = AdditionalOutput()
    output.AllocateBitInfoMap()
    morgan_generator().GetFingerprint(molecule, additionalOutput=output)
    return [
        (bit, _environment(molecule, center, radius))
        for bit, environments in sorted(output.GetBitInfoMap().items())
        for center, radius in environments
    ]


def descriptors(molecule: Any) -> Values:
    """The descriptors of an RDKit molecule, in the order of `DESCRIPTOR_NAMES`; 0 where one has no value."""
    from rdkit.Chem import rdMolDescriptors

    # Crippen's contributions of atoms are found once, for the surfaces; hydrogens of their own would double the time.
    values = [*rdMolDescriptors.CalcCrippenDescriptors(molecule, includeHs=False)]
    values += [function(molecule) for function in _functions()]
    for name in _SURFACES:
        values += getattr(rdMolDescriptors, name)(molecule)
    # The last surfaces leave the charges with the atoms; elements without parameters have none.
    atoms = map(molecule.GetAtomWithIdx, range(molecule.GetNumAtoms()))
    charges = [charge if isfinite(charge) else 0.0 for charge in (atom.GetDoubleProp(_CHARGE) for atom in atoms)]
    most, least = max(charges, default=0.0), min(charges, default=0.0)
    values += [most, least, max(most, -least), min(map(abs, charges), default=0.0)]
    array: Values = np.array(values, dtype=np.float32)
    return np.nan_to_num(array, nan=0.0).clip(-_LARGEST, _LARGEST)


# Of each byte, the one with its bits in the other order: RDKit packs the first bit lowest, numpy highest.
_REVERSED_BITS = np.packbits(np.unpackbits(np.arange(256, dtype=np.uint8), bitorder="little"))


@lru_cache
def morgan_generator() -> Any:
    """RDKit's generator of the fingerprint."""
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    return GetMorganGenerator(radius=_RADIUS, fpSize=BITS)


@lru_cache
def _functions() -> list[Any]:
    from rdkit.Chem import rdMolDescriptors

    return [getattr(rdMolDescriptors, f"Calc{name}") for name in _NUMBERS]


def _environment(molecule: Any, center: int, radius: int) -> tuple[int, ...]:
    """The atoms within `radius` bonds of an atom."""
    atoms, border = {center}, {center}
    for _ in range(radius):
        neighbours = (molecule.GetAtomWithIdx(atom).GetNeighbors() for atom in border)
        border = {atom.GetIdx() for atom_neighbours in neighbours for atom in atom_neighbours} - atoms
        atoms |= border
    return tuple(sorted(atoms))
