"""Molecules as arrays: OGB's nine atom and three bond fields, with a fixed vocabulary."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from outland.chem.counts import COUNTS
from outland.chem.counts import counts as molecule_counts
from outland.chem.descriptors import DESCRIPTORS, FINGERPRINT, descriptors, fingerprint
from outland.errors import OutlandError
from outland.graphs.schema import Features

# The values of each field, in order; most fields have one more category, the last, for any other value.
_CHIRALITY = ("CHI_UNSPECIFIED", "CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW", "CHI_OTHER")
_CIP = ("", "R", "S", "r", "s")
_HYBRIDIZATION = ("SP", "SP2", "SP3", "SP3D", "SP3D2")
_BOND_TYPE = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
_STEREO = ("STEREONONE", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS")  # any other: STEREOANY
_MAX_CHARGE = 5

ATOMS = Features(9, (119, 5, 12, 12, 10, 6, 6, 2, 2))
# RDKit's tags, which OGB has for chirality, say the sense of an atom's neighbours in the order of the SMILES: written
# otherwise, the same molecule has others. CIP codes are those of the molecule.
CIP_ATOMS = replace(ATOMS, version="cip-1")
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
CIP_ATOM_FIELDS = tuple("CIP code" if name == "chirality" else name for name in ATOM_FIELDS)
BOND_FIELDS = ("type", "stereo", "conjugated")
# What keys of prepared molecules name.
VECTOR = {"fingerprint": FINGERPRINT, "descriptors": DESCRIPTORS, "counts": COUNTS}

Array = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Molecule:
    """A molecule of `n` atoms and `m` bonds: atoms `[n, 9]`, directed edges `[2, 2m]`, bond features `[2m, 3]`.

    Fingerprint `[256]`, descriptors `[D]` and counts `[C]` are there where they were asked for: see `chem.descriptors`
    and `chem.counts`.
    """

    atoms: Array
    edges: npt.NDArray[np.int32]
    bonds: Array
    fingerprint: Array | None = None
    descriptors: npt.NDArray[np.float32] | None = None
    counts: Array | None = None


def rdkit() -> Any:
    """The module `rdkit.Chem`, with RDKit's log disabled; an `OutlandError` where it is not installed."""
    try:
        from rdkit import Chem, rdBase
    except ImportError:
        raise OutlandError(
            "molecules need RDKit: pip install 'outland[molecules]', "
            "or prepare them elsewhere with `outland data prepare --out` (with `--descriptors`, where "
            "backbone.descriptors is on) and `outland data import` them here"
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


def are_molecules(node: Features, edge: Features | None) -> bool:
    """Whether graphs with these features are molecules, by either version of the atoms' features."""
    return node in (ATOMS, CIP_ATOMS) and edge == BONDS


def featurize(
    molecule: Any, vector: bool = False, graph: bool = True, counts: bool = True, atoms: Features = ATOMS
) -> Molecule:
    """The arrays of an RDKit molecule, with its `vector` if asked; the two directions of a bond are adjacent edges.

    Without `graph` it is an atom of each element, of which nothing else is known: models that read vectors alone need
    no more. Without `counts` the vector has none: trees alone read them. `atoms` is `ATOMS`, as benchmarks have them,
    or `CIP_ATOMS`, which needs the stereochemistry that RDKit assigns when it reads a SMILES.
    """
    vectors: tuple[Any, ...] = (fingerprint(molecule), descriptors(molecule)) if vector else ()
    if vector and counts:
        vectors += (molecule_counts(molecule),)
    if not graph:
        return Molecule(_elements(molecule), *_NO_BONDS, *vectors)
    fields, (ends, bonds) = _atoms(molecule), _bonds(molecule)
    if atoms == CIP_ATOMS:
        _replace_tags(molecule, fields[:, 1])
    edges = ends.repeat(2, axis=1)
    edges[:, 1::2] = ends[::-1]
    return Molecule(fields, edges, bonds.repeat(2, axis=0), *vectors)


def _atoms(molecule: Any) -> Array:
    """The fields of each atom `[n, 9]`. By index and as bytes: iterators and arrays from lists take longer."""
    chirality, hybridization, *_ = _categories()
    values = [
        value
        for atom in map(molecule.GetAtomWithIdx, range(molecule.GetNumAtoms()))
        for value in (
            atom.GetAtomicNum() - 1 & 255,  # below 0 is 255, and so past the last category
            chirality[atom.GetChiralTag()],
            atom.GetTotalDegree(),
            atom.GetFormalCharge() + _MAX_CHARGE & 255,
            atom.GetTotalNumHs(),
            atom.GetNumRadicalElectrons(),
            hybridization[atom.GetHybridization()],
            atom.GetIsAromatic(),
            atom.IsInRing(),
        )
    ]
    return np.minimum(np.frombuffer(bytes(values), np.uint8).reshape(-1, 9), _LAST_CATEGORY)


def _elements(molecule: Any) -> Array:
    """An atom of each element, all other fields of which are unknown `[k, 9]`."""
    numbers = {atom.GetAtomicNum() for atom in map(molecule.GetAtomWithIdx, range(molecule.GetNumAtoms()))}
    fields = np.tile(_LAST_CATEGORY, (len(numbers), 1))
    fields[:, 0] = np.minimum([number - 1 & 255 for number in sorted(numbers)], _LAST_CATEGORY[0])
    return fields


def _replace_tags(molecule: Any, chirality: Array) -> None:
    """Put CIP codes in place of chiral tags `[n]`: R and S as RDKit assigned them when it read the molecule.

    The centres that it leaves out depend on each other, as in 1,4-dimethylcyclohexane: they are labelled r and s by the
    CIP rules, which take longer: too long, and none of them has a code, whichever atom comes first.
    """
    tagged = np.flatnonzero(chirality).tolist()
    centres = [molecule.GetAtomWithIdx(index) for index in tagged]
    rest = [index for index, atom in zip(tagged, centres, strict=True) if not atom.HasProp("_CIPCode")]
    if rest:
        from rdkit.Chem.rdCIPLabeler import AssignCIPLabels

        try:
            AssignCIPLabels(molecule, rest, [], _MOST_STEPS)
        except RuntimeError:  # too many steps
            for index in rest:
                molecule.GetAtomWithIdx(index).ClearProp("_CIPCode")
    for index, atom in zip(tagged, centres, strict=True):
        chirality[index] = _CIP.index(atom.GetProp("_CIPCode")) if atom.HasProp("_CIPCode") else 0


_MOST_STEPS = 100_000  # of the search for a CIP code: a tenth of a second
_LAST_CATEGORY = (np.array(ATOMS.vocabulary) - 1).astype(np.uint8)
_NO_BONDS = (np.zeros((2, 0), dtype=np.int32), np.zeros((0, BONDS.width), dtype=np.uint8))


def _bonds(molecule: Any) -> tuple[npt.NDArray[np.int32], Array]:
    """The ends of each bond `[2, m]` and its fields `[m, 3]`."""
    *_, bond_type, stereo = _categories()
    ends: list[int] = []
    values: list[int] = []
    for bond in map(molecule.GetBondWithIdx, range(molecule.GetNumBonds())):
        ends += (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())
        values += (bond_type[bond.GetBondType()], stereo[bond.GetStereo()], bond.GetIsConjugated())
    pairs = np.array(ends, dtype=np.int32).reshape(-1, 2)
    return np.ascontiguousarray(pairs.T), np.frombuffer(bytes(values), np.uint8).reshape(-1, 3)


@lru_cache
def _categories() -> tuple[dict[Any, int], ...]:
    """The category of each value of RDKit's enumerations: chirality, hybridisation, bond type and stereo."""
    chem = rdkit()
    enumerations = (
        (chem.ChiralType, _CHIRALITY),
        (chem.HybridizationType, _HYBRIDIZATION),
        (chem.BondType, _BOND_TYPE),
        (chem.BondStereo, _STEREO),
    )
    return tuple(
        {value: names.index(name) if name in names else len(names) for name, value in enumeration.names.items()}
        for enumeration, names in enumerations
    )
