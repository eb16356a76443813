"""Molecules that are small and still more than RDKit can take."""

import csv

import pytest

from outland.chem.featurizer import rdkit
from outland.chem.limits import MAX_ATOMS, MAX_LENGTH, graph_problem, text_problem
from outland.chem.smiles import MoleculeOptions, read_molecules
from tests.conftest import SAMPLES
from tests.faults.molecules import C60, cubic, para_ring, polyphenyl


@pytest.mark.parametrize(
    ("smiles", "words"),
    [
        ("C" * (MAX_LENGTH + 1), "the longest taken is 5000"),
        ("C" * (MAX_ATOMS + 1), "a molecule of 601 atoms; the largest taken has 600"),
        (para_ring(9), "521 rings of like size; at most 400 are taken"),  # two ways around each of 9 rings
        (para_ring(20), "1,048,596 rings of like size"),
        (para_ring(40), "41 rings fused to one system; at most 31"),
        (cubic(300), "151 rings fused to one system; at most 31"),
        (".".join([C60] * 7), "217 rings; at most 200"),
    ],
)
def test_what_is_not_taken(smiles, words):
    assert words in text_problem(smiles)
    (chunk,) = read_molecules([smiles, "CCO"], MoleculeOptions(canonical=True, fingerprint=True), "")
    assert chunk.indices == [1]
    assert chunk.failures == [(0, text_problem(smiles))]


@pytest.mark.parametrize("smiles", ["CCO", C60, para_ring(8), polyphenyl(90), cubic(60), "CC1CC", "caffeine", ""])
def test_what_is_taken_or_left_to_rdkit(smiles):
    assert text_problem(smiles) == ""


def test_every_molecule_of_the_samples_is_taken():
    for name in ("bbbp", "esol", "tox21"):
        with (SAMPLES / f"{name}.csv").open(newline="") as stream:
            assert not any(text_problem(row["smiles"]) for row in csv.DictReader(stream))


def test_a_molecule_is_judged_as_its_smiles_is():
    molecule = rdkit().MolFromSmiles(para_ring(6))
    assert graph_problem(molecule) == ""
    assert molecule.GetRingInfo().NumRings() == 64 + 6  # its own rings are left alone
    assert "fused to one system" in graph_problem(rdkit().MolFromSmiles(para_ring(40), sanitize=False))
