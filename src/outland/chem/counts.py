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
    "NH2": "ArN",
    "amide": "priamide lactam imide alkyl_carbamate urea barbitur",
    "nitro": "nitro_arom nitro_arom_nonortho",
    "sulfonamd": "prisulfonamd",
    "halogen": "alkyl_halide",
}
# What single fragments need besides: aromatic atoms a, rings L with an aliphatic atom, atoms n and o of rings, two that
# rings share FF, acyclic double bonds D (or a charge, by which oxygen has one in a ring), triple bonds T, charges +.
_ALSO = {
    "a": "benzene aryl_methyl aniline",
    "L": "Ndealkylation2 piperdine piperzine dihydropyridine morpholine lactone epoxide",
    "n": "Ndealkylation2 piperdine piperzine dihydropyridine morpholine benzodiazepine",
    "o": "lactone epoxide furan",
    "FF": "bicyclic",
    "D": "C_O C_O_noCOO ketone aldehyde COO COO2 lactone amide nitroso isocyan",
    "T": "term_acetylene nitrile",
    "+": "quatN azide",
}
# Fragments that are searched only where one of these is: patterns within patterns take ten times as long as plain ones.
_PLAIN = {
    "allylic_oxid": ["C=C"],
    "aryl_methyl": ["a-[CH3,CH2]"],
    "para_hydroxylation": ["[cH]1[cH]cc(c[cH]1)~[#7,#8]"],
    "Al_OH": ["C-[OH]"],
    "Al_OH_noTert": ["C-[OH]"],
    "Ndealkylation1": ["C-N-[CH3]", "C-N-[CH2]-[CH3]"],
    "Ndealkylation2": ["C-N(-C)-C"],
    "HOCCN": ["[OH]CCN"],
}
_FRAGMENTS = " ".join(_GROUPS.values()).split()
COUNT_NAMES = (
    *(f"MQN{number}" for number in range(1, _QUANTUM_NUMBERS + 1)),
    *(f"fr_{name}" for name in _FRAGMENTS),
)
_LARGEST, _MOST_NEEDED = 255, 4  # of a count; atoms of one kind that a fragment needs


class _Fragment(NamedTuple):
    """A pattern, what a molecule needs for it, indices of the fragments that it is within, and plain patterns."""

    pattern: Any
    needs: frozenset[str]
    within: tuple[int, ...]
    plain: tuple[Any, ...]


class _Group(NamedTuple):
    """Fragments that need the same atoms and rings."""

    needs: frozenset[str]
    fragments: tuple[_Fragment, ...]


def counts(molecule: Any) -> npt.NDArray[np.uint8]:
    """The counts of an RDKit molecule, in the order of `COUNT_NAMES`; what exceeds 255 is 255.

    MQN are the molecular quantum numbers of Nguyen et al. (2009): atoms, bonds, polar groups and rings by kind.
    """
    from rdkit.Chem.rdMolDescriptors import MQNs_

    numbers = MQNs_(molecule)
    present, matches = _present(molecule, numbers), list[int]()
    search, has = molecule.GetSubstructMatches, molecule.HasSubstructMatch
    for needs, fragments in _groups():
        if not needs <= present:
            matches += [0] * len(fragments)
            continue
        for pattern, also, within, plain in fragments:
            may_be = also <= present and all(map(matches.__getitem__, within)) and (not plain or any(map(has, plain)))
            matches.append(len(search(pattern)) if may_be else 0)
    return np.array(numbers + matches).clip(0, _LARGEST).astype(np.uint8)


def _present(molecule: Any, numbers: list[int]) -> set[str]:
    """What there is of each kind that fragments need, mostly by the quantum numbers: of two nitrogens `N` and `NN`."""
    from rdkit.Chem.rdMolDescriptors import CalcNumAliphaticRings

    _, f, cl, br, i, s, p, acyclic_n, cyclic_n, acyclic_o, cyclic_o, *_ = numbers
    positive = numbers[24]
    present = {
        "N": acyclic_n + cyclic_n,
        "O": acyclic_o + cyclic_o,
        "S": s,
        "P": p,
        "X": f + cl + br + i,
        "R": sum(numbers[32:40]),
        "a": int(molecule.HasSubstructMatch(_aromatic())),
        "L": CalcNumAliphaticRings(molecule),
        "n": cyclic_n,
        "o": cyclic_o,
        "F": numbers[40],
        "D": numbers[13] + positive,
        "T": numbers[14] + numbers[17],
        "+": positive,
    }
    return {kind * count for kind, most in present.items() for count in range(1, min(most, _MOST_NEEDED) + 1)}


@lru_cache
def _aromatic() -> Any:
    from rdkit.Chem import MolFromSmarts

    return MolFromSmarts("a")


@lru_cache
def _groups() -> list[_Group]:
    from rdkit.Chem import Fragments, MolFromSmarts

    patterns = {name.removeprefix("fr_"): function.__defaults__[1] for name, function in Fragments.fns}

    def fragment(name: str) -> _Fragment:
        needed = "".join(kinds for kinds, names in _ALSO.items() if name in names.split())
        within = tuple(_FRAGMENTS.index(other) for other, names in _WITHIN.items() if name in names.split())
        plain = tuple(map(MolFromSmarts, _PLAIN.get(name, ())))
        return _Fragment(patterns[name], _needs(needed), within, plain)

    return [_Group(_needs(needed), tuple(map(fragment, names.split()))) for needed, names in _GROUPS.items()]


def _needs(kinds: str) -> frozenset[str]:
    return frozenset(kind * kinds.count(kind) for kind in kinds)
