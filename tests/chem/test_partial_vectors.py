"""Vectors of molecules without some atoms."""

import numpy as np

from outland.chem.counts import COUNT_NAMES, counts
from outland.chem.descriptors import DESCRIPTOR_NAMES, bit_atoms, descriptors, fingerprint
from outland.chem.featurizer import parse
from outland.chem.partial_vectors import PartialVectors


def test_bits_of_lost_environments_are_off_unless_others_set_them():
    molecule = parse("CC(=O)Nc1ccccc1")
    vectors, environments = PartialVectors(molecule), bit_atoms(molecule)
    assert np.array_equal(vectors.fingerprint(()), fingerprint(molecule))
    assert not vectors.fingerprint(range(10)).any()
    left = set(np.flatnonzero(np.unpackbits(vectors.fingerprint((9,)))))
    assert left == {bit for bit, atoms in environments if 9 not in atoms}
    (alone,) = [bit for bit, atoms in environments if atoms == (9,)]
    assert alone in left  # an aromatic CH, as four other atoms are


def test_descriptors_and_counts_are_those_of_what_is_left():
    vectors = PartialVectors(parse("CCCO"))
    weight = DESCRIPTOR_NAMES.index("ExactMolWt")
    for atoms, rest in (((), "CCCO"), ((3,), "CCC"), ((2, 3), "CC")):
        values, numbers = vectors.numbers(atoms)
        assert np.allclose(values, descriptors(parse(rest)))
        assert np.array_equal(numbers, counts(parse(rest)))
    values, numbers = vectors.numbers((0, 1, 2, 3))
    assert (values[weight], numbers.sum()) == (0, 0)
    ring = PartialVectors(parse("c1ccncc1Cl"))
    assert all(np.isfinite(ring.numbers((atom,))[0]).all() for atom in range(7))
    assert ring.numbers((0,))[0][weight] < ring.numbers(())[0][weight]
    pyridine = COUNT_NAMES.index("fr_pyridine")
    assert [ring.numbers((atom,))[1][pyridine] for atom in (0, 6)] == [0, 1]
