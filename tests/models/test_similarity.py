"""Tanimoto similarity to training fingerprints."""

import numpy as np
import pytest
import torch

from outland.chem.featurizer import parse
from outland.models.conformal import Conformal
from outland.models.similarity import KEPT, Neighbours, out_of_group_similarity
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


def test_molecules_of_the_same_group_do_not_count():
    rows = packed(20).repeat(2, 1)
    groups = torch.arange(40) % 20 % 4  # both copies of a molecule in one group
    assert out_of_group_similarity(rows, groups).max() < 0.5
    assert out_of_group_similarity(rows, torch.arange(40) // 20).min() > 1 / 3
    for group in range(4):
        own = groups == group
        assert np.array_equal(
            out_of_group_similarity(rows, groups)[own.numpy()], Neighbours(rows[~own]).similarity(rows[own])
        )


def test_where_other_groups_are_few_the_mean_is_of_those_there_are():
    rows = packed(4)
    assert out_of_group_similarity(rows, torch.zeros(4)).tolist() == [0, 0, 0, 0]
    alone = out_of_group_similarity(rows, torch.tensor([0, 1, 1, 1]))
    assert alone[1:] == pytest.approx(tanimoto(rows[1:], rows[:1])[:, 0])
    assert out_of_group_similarity(rows[:0], torch.zeros(0)).shape == (0,)


def scaffolds(count, seed):
    """Fingerprints of groups of 1 to 8 molecules that share most bits, groups alike in part; group of each."""
    random = np.random.default_rng(seed)
    common = np.random.default_rng(99).random((30, 2048)) < 0.03
    sizes = random.integers(1, 9, count)
    cores = common[random.integers(0, 30, count)] ^ (random.random((count, 2048)) < 0.01)
    groups = np.repeat(np.arange(count), sizes)
    bits = cores[groups] ^ (random.random((len(groups), 2048)) < 0.002)
    return torch.from_numpy(np.packbits(bits, axis=1)), torch.from_numpy(groups)


def test_rows_out_of_group_are_as_similar_as_new_groups_are():
    """By simulation: similarity to other folds alone is less, and intervals whose width goes by it are too short."""
    gaps, shares = {"groups": [], "folds": []}, {"groups": [], "folds": []}
    for seed in range(20):
        (rows, groups), (new, _) = scaffolds(60, seed), scaffolds(200, 1000 + seed)
        similarity = Neighbours(rows).similarity(new)
        random, own = np.random.default_rng(seed), out_of_group_similarity(rows, groups)
        y, new_y = ((1 - each) ** 4 * random.normal(size=len(each)) for each in (own, similarity))
        for name, divided in (("groups", groups), ("folds", groups % 5)):
            learned = out_of_group_similarity(rows, divided)
            gaps[name].append(learned.mean() - similarity.mean())
            conformal = Conformal.of_numbers(np.zeros(len(y)), y, (1 - learned) ** 4)
            half = conformal.half_widths(len(new), (1 - similarity) ** 4)[:, 0]
            shares[name].append((np.abs(new_y) <= half).mean())
    assert np.mean(gaps["groups"]) == pytest.approx(0, abs=0.015)
    assert np.mean(gaps["folds"]) < -0.015
    assert np.mean(shares["groups"]) == pytest.approx(0.9, abs=0.015)
    assert np.mean(shares["folds"]) < np.mean(shares["groups"]) - 0.012
