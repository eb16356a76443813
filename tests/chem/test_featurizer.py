import csv
import gzip

import numpy as np

from outland.chem.featurizer import ATOM_FIELDS, ATOMS, BOND_FIELDS, BONDS, featurize, parse


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
    assert (len(whole.atoms), len(vector.atoms), vector.edges.shape, vector.bonds.shape) == (13, 1, (2, 0), (0, 3))
    assert (vector.counts == whole.counts).all()
    bare = featurize(molecule, vector=True, counts=False)
    assert bare.counts is None
    assert (bare.descriptors == whole.descriptors).all()
