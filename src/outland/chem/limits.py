"""Limits on a molecule, held before RDKit perceives its rings: some small graphs have more rings than there is memory.

Sixteen six-membered rings, joined para to one large ring, are 65,000 rings of equal size, and each one more doubles
them. What passes here takes RDKit less than a second, with scaffold, canonical SMILES, fingerprint and descriptors.
"""

from collections.abc import Iterable
from typing import Any

from outland.chem.featurizer import rdkit

MAX_LENGTH = 5000  # characters of a SMILES
MAX_ATOMS = 600  # finding a scaffold takes the cube of it: a third of a second for so many
MAX_RINGS = 200  # in all
MAX_FUSED = 31  # rings of one fused system: as many as C60 has, and too few for 2**31 cycles
# Relevant cycles (Vismara, 1997), those that are no sum of shorter ones: RDKit lists them, and some of its descriptors
# compare all pairs of them.
MAX_CYCLES = 400
_HARMLESS = 8  # rings: they make 255 cycles at most


def text_problem(smiles: str) -> str:
    """Why the molecule of a SMILES is not taken; empty where RDKit may read it, or cannot in any case."""
    if len(smiles) > MAX_LENGTH:
        return f"a SMILES of {len(smiles)} characters; the longest taken is {MAX_LENGTH}"
    # An atom takes a character of the text, a ring two digits.
    if len(smiles) <= MAX_ATOMS and sum(map(smiles.count, "0123456789")) <= 2 * _HARMLESS:
        return ""
    molecule = rdkit().MolFromSmiles(smiles, sanitize=False)
    return "" if molecule is None else graph_problem(molecule)


def graph_problem(molecule: Any) -> str:
    """Why an RDKit molecule, sanitised or not, is not taken; empty where it is."""
    chem = rdkit()
    atoms = sum(atom.GetAtomicNum() != 1 for atom in molecule.GetAtoms())
    if atoms > MAX_ATOMS:
        return f"a molecule of {atoms} atoms; the largest taken has {MAX_ATOMS}"
    graph = chem.Mol(molecule)
    graph.ClearComputedProps()  # rings that were found, too
    chem.FastFindRings(graph)
    rings = graph.GetRingInfo().BondRings()
    if len(rings) <= _HARMLESS:
        return ""
    if len(rings) > MAX_RINGS:
        return f"a molecule of {len(rings)} rings; at most {MAX_RINGS} are taken"
    systems = _fused_systems(map(set, rings))
    fused = max(count for _, count in systems)
    if fused > MAX_FUSED:
        return f"{fused} rings fused to one system; at most {MAX_FUSED} are taken"
    cycles = sum(_count_cycles(graph, bonds) if count > 2 else 2**count - 1 for bonds, count in systems)
    return (
        f"a molecule of {cycles:,} rings of like size; at most {MAX_CYCLES:,} are taken" if cycles > MAX_CYCLES else ""
    )


def _fused_systems(rings: Iterable[set[int]]) -> list[tuple[set[int], int]]:
    """Bonds and number of rings of each fused system, from a basis of cycles: those that share a bond are one."""
    systems: list[tuple[set[int], int]] = []
    for bonds in rings:
        count, apart = 1, []
        for system in systems:
            if system[0].isdisjoint(bonds):
                apart.append(system)
            else:
                bonds, count = bonds | system[0], count + system[1]
        systems = [*apart, (bonds, count)]
    return systems


def _count_cycles(graph: Any, bonds: set[int]) -> int:
    """The relevant cycles of one fused system, counted and not listed; RDKit's count holds 32 bits."""
    chem = rdkit()
    system = chem.PathToSubmol(graph, sorted(bonds))
    system.ClearComputedProps()
    chem.FindRingFamilies(system)
    return int(system.GetRingInfo().NumRelevantCycles())
