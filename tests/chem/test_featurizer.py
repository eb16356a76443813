import csv
import gzip

import numpy as np
import pytest

from outland.chem.featurizer import (
    ATOM_FIELDS,
    ATOMS,
    BOND_FIELDS,
    BONDS,
    CIP_ATOM_FIELDS,
    CIP_ATOMS,
    featurize,
    parse,
    rdkit,
)
from tests.conftest import SAMPLES


def arrays(smiles, lenient=False):
    return featurize(parse(smiles, lenient))


def test_vocabulary_is_fixed():
    assert ATOMS.vocabulary == (119, 5, 12, 12, 10, 6, 6, 2, 2)
    assert BONDS.vocabulary == (5, 6, 2)
    assert len(ATOM_FIELDS) == ATOMS.width
    assert len(BOND_FIELDS) == BONDS.width


def test_a_molecule_by_hand():
    """Vinyl chloride, C=CCl: two SP2 carbons and a chlorine; a double and a single bond."""
    molecule = arrays("C=CCl")
    assert molecule.atoms.tolist() == [
        [5, 0, 3, 5, 2, 0, 1, 0, 0],
        [5, 0, 3, 5, 1, 0, 1, 0, 0],
        [16, 0, 1, 5, 0, 0, 2, 0, 0],
    ]
    assert molecule.edges.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert molecule.bonds.tolist() == [[1, 0, 0], [1, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_one_atom_has_no_bonds():
    molecule = arrays("[Na+]")
    assert molecule.atoms.tolist() == [[10, 0, 0, 6, 0, 0, 5, 0, 0]]
    assert molecule.edges.shape == (2, 0)


def test_strange_values_go_to_the_last_place():
    assert arrays("[*]").atoms[0, 0] == 118
    assert arrays("[Fe+8]").atoms[0, 3] == 11


def test_lenient_parse_takes_what_the_valence_model_refuses():
    smiles = "[Al-3](C)(C)(C)(C)(C)(C)(C)"
    assert parse(smiles) is None
    assert parse(smiles, lenient=True).GetNumAtoms() == 8
    assert parse("not a molecule", lenient=True) is None


@pytest.mark.parametrize(
    ("smiles", "tags", "codes"),
    [
        ("C[C@H](F)Cl", [0, 2, 0, 0], [0, 1, 0, 0]),
        ("F[C@@H](C)Cl", [0, 1, 0, 0], [0, 1, 0, 0]),  # the same molecule
        ("C[C@@H](F)Cl", [0, 1, 0, 0], [0, 2, 0, 0]),
        ("C[C@H]1CC[C@@H](C)CC1", [0, 1, 0, 0, 1, 0, 0, 0], [0, 4, 0, 0, 4, 0, 0, 0]),  # cis
        ("C[C@H]1CC[C@H](C)CC1", [0, 1, 0, 0, 2, 0, 0, 0], [0, 3, 0, 0, 3, 0, 0, 0]),  # trans
        ("[NH3][Pt@SP1](Cl)(Cl)[NH3]", [0, 4, 0, 0, 0], [0, 0, 0, 0, 0]),
    ],
)
def test_chirality_is_a_tag_or_a_cip_code(smiles, tags, codes):
    assert (ATOM_FIELDS[1], CIP_ATOM_FIELDS[1]) == ("chirality", "CIP code")
    assert featurize(parse(smiles)).atoms[:, 1].tolist() == tags
    assert featurize(parse(smiles), atoms=CIP_ATOMS).atoms[:, 1].tolist() == codes


def test_features_do_not_depend_on_how_a_smiles_is_written():
    """Of 298 molecules, each written in three random ways: tags change in most of those that have any."""
    with (SAMPLES / "bbbp.csv").open() as stream:
        molecules = [parse(row["smiles"]) for row in csv.DictReader(stream)]
    ring = [parse(text) for text in ("C[C@H]1CC[C@@H](C)CC1", "C[C@H]1CC[C@H](C)CC1", "O[C@H]1C[C@@H](F)C1")]
    changed = {ATOMS: 0, CIP_ATOMS: 0}
    for molecule in [*filter(None, molecules), *ring]:
        for features in changed:
            expected = sorted_rows(featurize(molecule, atoms=features))
            texts = rdkit().MolToRandomSmilesVect(molecule, 3, randomSeed=7)
            changed[features] += any(sorted_rows(featurize(parse(text), atoms=features)) != expected for text in texts)
    assert changed[CIP_ATOMS] == 0
    assert changed[ATOMS] > 60


def test_centres_have_no_codes_where_these_take_too_long(monkeypatch):
    """5,000 steps are enough for the smaller ring of two, which comes first or last."""
    small, large = "C[C@H]1CC[C@@H](C)CC1", "C[C@H]1CCCCCCCCC[C@@H](C)CCCCCCCCC1"
    texts = (f"{small}.{large}", f"{large}.{small}")
    for steps, codes in ((100_000, {0, 4}), (5000, {0})):
        monkeypatch.setattr("outland.chem.featurizer._MOST_STEPS", steps)
        first, last = (featurize(parse(text), atoms=CIP_ATOMS) for text in texts)
        assert set(first.atoms[:, 1].tolist()) == codes
        assert sorted_rows(first) == sorted_rows(last)


def sorted_rows(molecule):
    return sorted(map(bytes, molecule.atoms)), sorted(map(bytes, molecule.bonds))


def test_all_of_molbbbp_equals_ogb(data):
    folder = data.folder / "ogb/ogbg_molbbbp"
    with gzip.open(folder / "mapping/mol.csv.gz", "rt") as stream:
        molecules = [arrays(row["smiles"]) for row in csv.DictReader(stream)]

    def table(name):
        with gzip.open(folder / f"raw/{name}.csv.gz", "rt") as stream:
            return np.array([[int(cell) for cell in line.split(",")] for line in stream])

    assert len(molecules) == 2039
    assert np.array_equal(np.concatenate([m.atoms for m in molecules]), table("node-feat"))
    assert np.array_equal(np.concatenate([m.bonds[::2] for m in molecules]), table("edge-feat"))
    assert np.array_equal(np.concatenate([m.edges[:, ::2].T for m in molecules]), table("edge"))


def test_a_molecule_without_its_graph_has_the_same_vector():
    molecule = parse("CC(=O)Oc1ccccc1C(=O)O")
    whole, vector = featurize(molecule, vector=True), featurize(molecule, vector=True, graph=False)
    assert (vector.fingerprint == whole.fingerprint).all()
    assert (vector.descriptors == whole.descriptors).all()
    assert (len(whole.atoms), len(vector.atoms), vector.edges.shape, vector.bonds.shape) == (13, 2, (2, 0), (0, 3))
    assert (vector.counts == whole.counts).all()
    assert vector.atoms.tolist() == [[number - 1, 4, 11, 11, 9, 5, 5, 1, 1] for number in (6, 8)]  # carbon, oxygen
    bare = featurize(molecule, vector=True, counts=False)
    assert bare.counts is None
    assert (bare.descriptors == whole.descriptors).all()
