"""Tanimoto similarity to training fingerprints."""

import numpy as np
import pytest
import torch

from outland.chem.featurizer import parse
from outland.models.similarity import KEPT, Neighbours, out_of_fold_similarity
from tests.models.cases import bbbp


def packed(rows, seed=0):
    bits = np.random.default_rng(seed).random((rows, 2048)) < 0.03
    return torch.from_numpy(np.packbits(bits, axis=1))


def tanimoto(first, second):
    a, b = (np.unpackbits(rows.numpy(), axis=1).astype(int) for rows in (first, second))
    shared = a @ b.T
    return shared / np.maximum(a.sum(1)[:, None] + b.sum(1) - shared, 1)


def test_similarity_is_the_mean_of_the_three_nearest():
    training, new = packed(40), packed(700, 1)
    new[0], new[1] = training[7], 0
    expected = np.sort(tanimoto(new, training), axis=1)[:, -3:].mean(1)
    assert np.allclose(Neighbours(training).similarity(new), expected, atol=1e-6)
    assert Neighbours(training).similarity(new)[1] == 0
    assert Neighbours(training[:1]).similarity(training[:1]).tolist() == [1.0]


def test_it_is_rdkits_tanimoto():
    from rdkit import DataStructs
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    from outland.chem.descriptors import fingerprint

    molecules = [parse(smiles) for smiles in bbbp()[0][:30]]
    bits = torch.from_numpy(np.stack([fingerprint(molecule) for molecule in molecules]))
    theirs = [GetMorganGenerator(radius=2, fpSize=2048).GetFingerprint(molecule) for molecule in molecules]
    expected = [np.sort(DataStructs.BulkTanimotoSimilarity(one, theirs[3:]))[-3:].mean() for one in theirs[:3]]
    assert Neighbours(bits[3:]).similarity(bits[:3]) == pytest.approx(expected, abs=1e-6)


def test_at_most_five_thousand_are_kept():
    few = packed(30)
    assert torch.equal(Neighbours.fit(few, 0).fingerprints, few)
    assert Neighbours.fit(few.repeat(200, 1), 0).fingerprints.shape == (KEPT, 256)


def test_molecules_of_the_same_fold_do_not_count():
    rows = packed(20).repeat(2, 1)
    fold = torch.arange(40) % 20 % 4  # both copies of a molecule in one fold
    assert out_of_fold_similarity(rows, fold).max() < 0.5
    assert out_of_fold_similarity(rows, torch.arange(40) // 20).min() > 1 / 3
