import csv
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

from outland.chem.counts import counts
from outland.chem.descriptors import descriptors, fingerprint
from outland.chem.featurizer import CIP_ATOMS, featurize, parse, rdkit
from outland.chem.limits import MAX_LENGTH
from outland.chem.packing import cluster, factorize, pack_molecules
from outland.chem.smiles import MoleculeOptions, read_batches, read_block, read_molecules
from outland.graphs.edges import reverse_edges
from tests.conftest import SAMPLES


@pytest.fixture(scope="module")
def bbbp_smiles():
    with (SAMPLES / "bbbp.csv").open() as stream:
        return [row["smiles"] for row in csv.DictReader(stream)]


def test_streams_keep_order_and_name_failures(bbbp_smiles):
    stream = [*bbbp_smiles[:3], "", "C" * (MAX_LENGTH + 1), "caffeine", "C\udcff", *bbbp_smiles[3:6]]
    (chunk,) = read_molecules(iter(stream), MoleculeOptions(canonical=True), "")
    assert chunk.indices == [0, 1, 2, 7, 8, 9]
    reasons = dict(chunk.failures)
    assert reasons[3] == "no SMILES"
    assert "5001 characters" in reasons[4]
    assert "cannot read" in reasons[5]
    assert "not UTF-8" in reasons[6]
    assert len(chunk.canonical) == len(chunk.scaffolds) == 6


def test_processes_give_what_one_process_gives(bbbp_smiles):
    many, options = bbbp_smiles * 3, MoleculeOptions(canonical=True, fingerprint=True)
    alone, parallel = (list(read_molecules(iter(many), options, "", workers=workers)) for workers in (1, 2))
    assert [len(chunk.indices) + len(chunk.failures) for chunk in parallel] == [256] * 3 + [132]
    for chunk, expected in zip(parallel, alone, strict=True):
        assert (chunk.indices, chunk.failures, chunk.scaffolds) == (
            expected.indices,
            expected.failures,
            expected.scaffolds,
        )
        assert (chunk.canonical, chunk.fingerprints) == (expected.canonical, expected.fingerprints)
        assert all(np.array_equal(a.atoms, b.atoms) for a, b in zip(chunk.molecules, expected.molecules, strict=True))


def test_streams_of_many_rows_have_a_process_a_core(monkeypatch):
    """However few rows a batch has; and no more are read before it is known than are read ahead."""
    seen, read = [], []
    monkeypatch.setattr("outland.chem.smiles.available_cores", lambda: 3)
    monkeypatch.setattr("outland.chem.smiles.map_ordered", lambda function, items, workers: [seen.append(workers)])

    def batches(number, rows):
        for start in range(number):
            read.append(rows)
            yield [(start * rows + row, "C") for row in range(rows)]

    for number, rows, workers, most in (
        (2, 900, 1, 2),
        (2, 1024, 3, 2),
        (9, 300, 3, 7),
        (11, 10, 1, 11),
        (99, 9, 3, 12),
    ):
        read.clear()
        list(read_batches(batches(number, rows), MoleculeOptions()))
        assert (seen[-1], len(read)) == (workers, most), (number, rows)


def test_processes_that_read_molecules_need_no_pytorch():
    """It takes a process for seconds, and two of them read a table."""
    code = "import sys, outland.workers, outland.chem.smiles; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_molecules_have_the_stereochemistry_of_their_smiles():
    """However they come: as they are, from another process, with coordinates in space, or with a bond set by hand."""
    smiles = ["CC(F)Cl", "C[C@H](F)Cl", "C[C@@H](F)Cl", "C[C@H]1CC[C@@H](C)CC1", "C/C=C/C", "C/C=C\\C", "C[S@](=O)CC"]
    molecules = [parse(text) for text in smiles]
    pickled = [pickle.loads(pickle.dumps(molecule)) for molecule in molecules]
    blocks = [block_in_space(molecule) for molecule in molecules]
    by_hand = parse("CC=CC")
    by_hand.GetBondWithIdx(1).SetStereoAtoms(0, 3)
    by_hand.GetBondWithIdx(1).SetStereo(rdkit().BondStereo.STEREOCIS)
    options = MoleculeOptions(atoms=CIP_ATOMS, vector=True)
    expected, *others = (
        [next(read_molecules([row], options, "")).molecules[0] for row in rows]
        for rows in (
            smiles,
            molecules,
            pickled,
            [rdkit().MolFromSmiles(text, sanitize=False) for text in smiles],
            [rdkit().MolFromMolBlock(block) for block in blocks[1:]],  # an unknown centre is a known one in space
            [read_block(block) for block in blocks[1:]],
        )
    )
    assert [molecule.atoms[:, 1].max() for molecule in expected] == [0, 1, 2, 4, 0, 0, 1]
    assert [molecule.bonds[:, 1].max() for molecule in expected] == [0, 0, 0, 0, 2, 1, 0]
    for molecules in others:
        for molecule, other in zip(expected[-len(molecules) :], molecules, strict=True):
            assert np.allclose(other.descriptors, molecule.descriptors, rtol=1e-5)
            assert sorted(map(bytes, other.atoms)) == sorted(map(bytes, molecule.atoms))
            assert sorted(map(bytes, other.bonds)) == sorted(map(bytes, molecule.bonds))
    (chunk,) = read_molecules([by_hand], options, "")
    assert chunk.molecules[0].bonds[:, 1].tolist() == [0, 0, 1, 1, 0, 0]
    assert str(by_hand.GetBondWithIdx(1).GetStereo()) == "STEREOCIS"  # the user's molecule stays as it is
    (chunk,) = read_molecules([by_hand], MoleculeOptions(), "")
    assert chunk.molecules[0].bonds[:, 1].tolist() == [0, 0, 3, 3, 0, 0]  # as models of earlier versions read it


@pytest.mark.parametrize("is_pickled", [False, True])
def test_molecules_are_sanitised(is_pickled, bbbp_smiles):
    """A ring of double bonds is aromatic; what RDKit refuses of a SMILES has a reason."""
    chem, options = rdkit(), MoleculeOptions(atoms=CIP_ATOMS, vector=True)
    smiles = ["C1=CC=CC=C1C(=O)NC", *(text for text in bbbp_smiles[:60] if "[H]" not in text and parse(text))]
    rows = [chem.MolFromSmiles(text, sanitize=False) for text in [*smiles, "CC(C)(C)(C)C", "c1cccc1"]]
    rows += [chem.MolFromSmarts(text) for text in ("c1ccccc1C", "[C,N]~C")]
    rows.append(chem.MolFromMolBlock(chem.MolToMolBlock(parse("*CC"))))  # of which the first atom is a query, too
    (chunk,) = read_molecules([pickle.loads(pickle.dumps(row)) for row in rows] if is_pickled else rows, options, "")
    many = len(smiles)
    assert dict(chunk.failures) == {
        **dict.fromkeys((many, many + 1), "RDKit cannot sanitise the molecule"),
        **dict.fromkeys((many + 2, many + 3), "a query, as SMARTS are, and no molecule"),
    }
    (expected,) = read_molecules([*smiles, "*CC"], options, "")
    assert expected.molecules[0].atoms[:6, 7].tolist() == [1] * 6
    for molecule, other in zip(chunk.molecules, expected.molecules, strict=True):
        assert np.array_equal(molecule.atoms, other.atoms)
        assert np.array_equal(molecule.bonds, other.bonds)
        assert np.array_equal(molecule.fingerprint, other.fingerprint)


def block_in_space(molecule):
    from rdkit.Chem.AllChem import EmbedMolecule

    molecule = rdkit().AddHs(molecule)
    assert EmbedMolecule(molecule, randomSeed=1) == 0
    return rdkit().MolToMolBlock(molecule)


def test_packed_molecules_have_true_reverses(bbbp_smiles):
    molecules = [featurize(parse(s)) for s in bbbp_smiles[:40] if parse(s) is not None]
    packed = pack_molecules(molecules, torch.zeros(len(molecules), 1))
    assert torch.equal(
        packed.reverse.long(), reverse_edges(packed.edge_index.long(), packed.node_counts, packed.edge_counts)
    )


def test_vectors_travel_with_packed_molecules(bbbp_smiles):
    (chunk,) = read_molecules(bbbp_smiles[:20], MoleculeOptions(vector=True), "")
    packed = pack_molecules(chunk.molecules, torch.zeros(20, 1), extra={"row": torch.arange(20)})
    assert list(packed.extra) == ["row", "fingerprint", "descriptors", "counts"]
    for name, compute in (("fingerprint", fingerprint), ("descriptors", descriptors), ("counts", counts)):
        expected = np.stack([compute(parse(smiles)) for smiles in bbbp_smiles[:20]])
        assert np.array_equal(packed.select(torch.tensor([3, 7])).extra[name].numpy(), expected[[3, 7]])
    (plain,) = read_molecules(bbbp_smiles[:2], MoleculeOptions(), "")
    assert dict(pack_molecules(plain.molecules, torch.zeros(2, 1)).extra) == {}


def test_codes_of_names():
    assert factorize(["b", "a", "b", "c"]).tolist() == [0, 1, 0, 2]


def test_similar_molecules_are_one_cluster():
    """Three alkanols, two substituted benzenes, one of neither; the first of each kind is the leader."""
    smiles = ["CCCCCCO", "CCCCCCCO", "c1ccccc1C(=O)O", "CCCCCCCCO", "c1ccccc1C(=O)N", "C1CC1N=S"]
    (chunk,) = read_molecules(smiles, MoleculeOptions(fingerprint=True), "")
    assert cluster(chunk.fingerprints).tolist() == [0, 0, 1, 0, 1, 2]
