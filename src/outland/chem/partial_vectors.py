"""The vector of a molecule without some of its atoms."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from outland.chem.counts import counts
from outland.chem.descriptors import BITS, Bits, Values, bit_atoms, descriptors
from outland.chem.featurizer import rdkit


class PartialVectors:
    """Fingerprints, descriptors and counts of an RDKit molecule without some of its atoms.

    A bit is off where all environments that set it have lost an atom. Descriptors and counts are those of what is left,
    with hydrogens in place of the atoms; aromatic atoms stay aromatic.
    """

    def __init__(self, molecule: Any) -> None:
        environments = bit_atoms(molecule)
        self.molecule = molecule
        self.bits = np.array([bit for bit, _ in environments], dtype=np.int64)
        self.members = np.zeros((len(environments), molecule.GetNumAtoms()), dtype=bool)
        for number, (_, atoms) in enumerate(environments):
            self.members[number, list(atoms)] = True

    def fingerprint(self, atoms: Sequence[int]) -> Bits:
        """The packed fingerprint `[256]` without these atoms."""
        bits = np.zeros(BITS, dtype=bool)
        bits[self.bits[~self.members[:, list(atoms)].any(1)]] = True
        return np.packbits(bits)

    def numbers(self, atoms: Sequence[int]) -> tuple[Values, Bits]:
        """Descriptors and counts without these atoms; of the whole molecule where RDKit has none for what is left."""
        rest = rdkit().RWMol(self.molecule)
        rest.BeginBatchEdit()
        for atom in atoms:
            rest.RemoveAtom(int(atom))
        rest.CommitBatchEdit()
        rest.UpdatePropertyCache(strict=False)
        rdkit().FastFindRings(rest)
        try:
            return descriptors(rest), counts(rest)
        except (ValueError, RuntimeError):
            return descriptors(self.molecule), counts(self.molecule)
