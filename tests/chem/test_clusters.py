from outland.chem.clusters import cluster
from outland.chem.smiles import MoleculeOptions, read_molecules


def test_similar_molecules_are_one_cluster():
    """Three alkanols, two substituted benzenes, one of neither; the first of each kind is the leader."""
    smiles = ["CCCCCCO", "CCCCCCCO", "c1ccccc1C(=O)O", "CCCCCCCCO", "c1ccccc1C(=O)N", "C1CC1N=S"]
    (chunk,) = read_molecules(smiles, MoleculeOptions(fingerprint=True), "")
    assert cluster(chunk.fingerprints).tolist() == [0, 0, 1, 0, 1, 2]
