"""Vectors of molecules without some atoms."""

import numpy as np

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


def test_descriptors_are_those_of_what_is_left():
    vectors = PartialVectors(parse("CCCO"))
    weight = DESCRIPTOR_NAMES.index("ExactMolWt")
    assert np.allclose(vectors.descriptors(()), descriptors(parse("CCCO")))
    assert np.allclose(vectors.descriptors((3,)), descriptors(parse("CCC")))
    assert np.allclose(vectors.descriptors((2, 3)), descriptors(parse("CC")))
    assert vectors.descriptors((0, 1, 2, 3))[weight] == 0
    ring = PartialVectors(parse("c1ccncc1Cl"))
    assert all(np.isfinite(ring.descriptors((atom,))).all() for atom in range(7))
    assert ring.descriptors((0,))[weight] < ring.descriptors(())[weight]
