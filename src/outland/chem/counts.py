"""What a molecule has how often: its quantum numbers and RDKit's functional groups, named and versioned."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

# Trees alone read them: by scaffold folds of BBBP's training rows (three cuts) a forest's ROC-AUC rises from 0.899 to
# 0.906 and its log-loss falls from 0.332 to 0.322, while a Gaussian process loses by fragments on FreeSolv.
COUNTS = "mqn-fragments-1"
_QUANTUM_NUMBERS = 42
# RDKit's fragments by what a molecule needs for them: atoms of N, O, S, P, halogens X, and rings R. Most molecules lack
# something for most of them, and what they lack need not be searched.
_GROUPS = {
    "": "unbrch_alkane term_acetylene allylic_oxid aryl_methyl",
    "R": "benzene para_hydroxylation",
    "RR": "bicyclic",
    "O": "C_O C_O_noCOO Al_OH Ar_OH ether ketone methoxy aldehyde Al_OH_noTert ketone_Topliss",
    "OR": "phenol furan epoxide phenol_noOrthoHbond",
    "OO": "ester COO Al_COO Ar_COO COO2",
    "OOR": "lactone",
    "N": "quatN NH2 NH1 NH0 Ar_N Ar_NH aniline Imine nitrile Ndealkylation1 ArN",
    "NR": "pyridine piperdine dihydropyridine Ndealkylation2",
    "NN": "hdrzine hdrzone azo diazo amidine",
    "NNR": "imidazole piperzine benzodiazepine",
    "NNN": "azide guanido",
    "NNNNR": "tetrazole",
    "NO": "amide priamide oxime nitroso N_O isocyan HOCCN",
    "NOR": "oxazole morpholine lactam",
    "NOO": "nitro imide alkyl_carbamate",
    "NNO": "urea",
    "NOOR": "nitro_arom nitro_arom_nonortho",
    "NNOOOR": "barbitur",
    "S": "sulfide SH C_S",
    "RS": "thiophene",
    "OOS": "sulfone",
    "NS": "isothiocyan thiocyan",
    "NRS": "thiazole",
    "NOOS": "sulfonamd prisulfonamd",
    "OOOOP": "phos_acid phos_ester",
    "X": "halogen alkyl_halide",
}
# Fragments that are there only where another one is, which comes before them above.
_WITHIN = {
    "benzene": "para_hydroxylation phenol benzodiazepine nitro_arom",
    "Ar_OH": "phenol",
    "phenol": "phenol_noOrthoHbond",
    "ether": "methoxy ester lactone morpholine alkyl_carbamate",
    "ketone": "ketone_Topliss",
    "COO": "Al_COO Ar_COO",
    "Ar_N": "Ar_NH pyridine imidazole tetrazole oxazole thiazole",
    "amide": "priamide lactam imide alkyl_carbamate urea barbitur",
    "nitro": "nitro_arom nitro_arom_nonortho",
    "sulfonamd": "prisulfonamd",
    "halogen": "alkyl_halide",
}
_FRAGMENTS = " ".join(_GROUPS.values()).split()
COUNT_NAMES = (
    *(f"MQN{number}" for number in range(1, _QUANTUM_NUMBERS + 1)),
    *(f"fr_{name}" for name in _FRAGMENTS),
)
_LARGEST = 255


class _Group(NamedTuple):
    """How many atoms and rings of each kind fragments need: patterns, and places of those that they are within."""

    needs: tuple[tuple[str, int], ...]
    fragments: tuple[tuple[Any, tuple[int, ...]], ...]


def counts(molecule: Any) -> npt.NDArray[np.uint8]:
    """The counts of an RDKit molecule, in the order of `COUNT_NAMES`; what exceeds 255 is 255.

    MQN are the molecular quantum numbers of Nguyen et al. (2009): atoms, bonds, polar groups and rings by kind.
    """
    from rdkit.Chem.rdMolDescriptors import MQNs_

    numbers = MQNs_(molecule)
    _, f, cl, br, i, s, p, acyclic_n, cyclic_n, acyclic_o, cyclic_o, *_ = numbers
    rings = sum(numbers[32:40])
    present = {"N": acyclic_n + cyclic_n, "O": acyclic_o + cyclic_o, "S": s, "P": p, "X": f + cl + br + i, "R": rings}
    matches: list[int] = []
    search = molecule.GetSubstructMatches
    for needs, fragments in _groups():
        if any(present[kind] < least for kind, least in needs):
            matches += [0] * len(fragments)
            continue
        for pattern, within in fragments:
            is_absent = any(not matches[other] for other in within)
            matches.append(0 if is_absent else len(search(pattern)))
    return np.array(numbers + matches).clip(0, _LARGEST).astype(np.uint8)


@lru_cache
def _groups() -> list[_Group]:
    from rdkit.Chem import Fragments

    patterns = {name: function.__defaults__[1] for name, function in Fragments.fns}
    parents = {name: [other for other in _WITHIN if name in _WITHIN[other].split()] for name in _FRAGMENTS}
    return [
        _Group(
            tuple((kind, needed.count(kind)) for kind in sorted(set(needed))),
            tuple((patterns[f"fr_{name}"], tuple(map(_FRAGMENTS.index, parents[name]))) for name in names.split()),
        )
        for needed, names in _GROUPS.items()
    ]
