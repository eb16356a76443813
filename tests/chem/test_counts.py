"""Counts of atoms, bonds, rings and functional groups."""

import csv
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import Fragments
from rdkit.Chem.rdMolDescriptors import MQNs_

from outland.chem.counts import COUNT_NAMES, counts
from tests.conftest import SAMPLES

EXAMPLE = Path(__file__).parents[2] / "examples" / "bbbp.csv"
ODD = [
    "C1CN1c1nnnn1C",
    "O=C1CC(=O)NC(=O)N1",
    "CN=[N+]=[N-]",
    "C[N+]#N",
    "NC(=N)NCCS(=O)(=O)N",
    "OP(=O)(O)OP(=O)(O)OC",
    "COP(=O)(OC)Oc1ccc([N+](=O)[O-])cc1",
    "O=C1CCC(=O)O1",
    "C1COCCN1C(=O)NC",
    "CC(=O)N(O)C(C)=O",
    "S=C=NC#CSC#N",
    "c1cc2c(cc1O)C(c1ccccc1)=NCCN2",
    "OCCNC(C)(C)C",
    "Cc1ncsc1C=NNC",
    "c1cocn1",
    "c1cnc[nH]1",
    "CCCCC=CC1CC1Br",
    "ON=C1C=CNC=C1",
    "CNC(=O)OC",
    "[2H]C([2H])([2H])O[18F]",
    "C1C[O+]1C",
    "C[N-][N+]#N",
    "C[N+](C)(C)CC#C",
    "c1cc[o+]cc1",
    "CC1=[O+]CC1",
    "O=NN(C)CCC#N",
    "OC(C)=[O+]C",
    "OCC(O)CN1CCCC1",
    "CN(CC)C1CC1C=CCO",
    "c1ccc2cccc2cc1",
    "Cc1ccc(N(C)C=O)cc1",
]


def named(smiles):
    return dict(zip(COUNT_NAMES, counts(Chem.MolFromSmiles(smiles)).tolist(), strict=True))


def test_counts_of_aspirin():
    values = named("CC(=O)Oc1ccccc1C(=O)O")
    assert (values["MQN1"], values["MQN10"], values["MQN12"]) == (9, 4, 13)  # carbons, acyclic oxygens, heavy atoms
    groups = {"fr_C_O": 2, "fr_ester": 1, "fr_Ar_COO": 1, "fr_COO": 1, "fr_benzene": 1, "fr_ether": 1}
    assert {name: values[name] for name in groups} == groups
    assert sum(value for name, value in values.items() if name.startswith("fr_")) == 10


def test_nothing_that_a_molecule_has_is_left_unsearched():
    with EXAMPLE.open(newline="") as file:
        texts = [row["smiles"] for row in islice(csv.DictReader(file), 0, None, 8)]
    with (SAMPLES / "tox21.csv").open(newline="") as file:
        texts += [row["smiles"] for row in csv.DictReader(file)]
    molecules = [molecule for text in [*ODD, *texts] if (molecule := Chem.MolFromSmiles(text)) is not None]
    assert len(molecules) > 490
    functions = dict(Fragments.fns)
    expected = [[*MQNs_(each), *(functions[name](each) for name in COUNT_NAMES[42:])] for each in molecules]
    assert np.array_equal(np.stack([counts(each) for each in molecules]), np.minimum(expected, 255))
    assert (np.array(expected).max(0) > 0).sum() >= 115


def test_all_fragments_of_rdkit_but_a_repeated_one_are_counted():
    assert len(set(COUNT_NAMES)) == len(COUNT_NAMES) == 42 + 84
    assert {name for name, _ in Fragments.fns} - set(COUNT_NAMES) == {"fr_Nhpyrrole"}  # the same as fr_Ar_NH


@pytest.mark.parametrize("smiles", ["[Na+].[Cl-]", "*", "[H][H]", "C" * 800])
def test_odd_molecules_have_counts(smiles):
    values = counts(Chem.MolFromSmiles(smiles))
    assert (values.shape, values.dtype) == ((126,), np.uint8)
    assert values[0] == min(smiles.count("C") - smiles.count("Cl"), 255)
