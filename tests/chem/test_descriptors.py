import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import Descriptors, rdMolDescriptors

from outland.chem.descriptors import DESCRIPTOR_NAMES, bit_atoms, descriptors, fingerprint, morgan_generator

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"


def named(smiles):
    return dict(zip(DESCRIPTOR_NAMES, descriptors(Chem.MolFromSmiles(smiles)).tolist(), strict=True))


def test_bits_are_those_of_rdkit_in_order():
    molecule = Chem.MolFromSmiles(ASPIRIN)
    packed = fingerprint(molecule)
    assert (packed.shape, packed.dtype) == ((256,), np.uint8)
    assert np.unpackbits(packed).nonzero()[0].tolist() == list(morgan_generator().GetFingerprint(molecule).GetOnBits())


def test_every_bit_has_its_environments():
    """Of ethanol's atoms each has one bit of radius 0, and each bond's ends one of radius 1; radius 2 adds nothing."""
    ethanol = Chem.MolFromSmiles("CCO")
    environments = bit_atoms(ethanol)
    assert sorted(atoms for _, atoms in environments) == [(0,), (0, 1), (0, 1, 2), (1,), (1, 2), (2,)]
    molecule = Chem.MolFromSmiles(ASPIRIN)
    assert {bit for bit, _ in bit_atoms(molecule)} == set(np.unpackbits(fingerprint(molecule)).nonzero()[0].tolist())


def test_descriptors_of_aspirin():
    values = named(ASPIRIN)
    assert values["TPSA"] == pytest.approx(63.60, abs=1e-4)
    assert values["ExactMolWt"] == pytest.approx(180.04226, abs=1e-4)
    assert (values["NumHeavyAtoms"], values["NumAtoms"], values["NumAromaticRings"]) == (13, 21, 1)
    molecule = Chem.MolFromSmiles(ASPIRIN)
    logp, refractivity = rdMolDescriptors.CalcCrippenDescriptors(molecule, includeHs=False)
    assert (values["CrippenLogP"], values["CrippenMR"]) == pytest.approx((logp, refractivity), rel=1e-6)
    surface = [values[name] for name in DESCRIPTOR_NAMES if name.startswith("PEOE_VSA")]
    assert surface == pytest.approx(list(rdMolDescriptors.PEOE_VSA_(molecule)), rel=1e-5)


def test_extreme_charges_are_those_of_rdkit():
    values, molecule = named(ASPIRIN), Chem.MolFromSmiles(ASPIRIN)
    for name in ("MaxPartialCharge", "MinPartialCharge", "MaxAbsPartialCharge"):
        assert values[name] == pytest.approx(getattr(Descriptors, name)(molecule), rel=1e-5)
    assert values["LeastAbsPartialCharge"] == pytest.approx(0.01827, abs=1e-5)
    assert named("[Fe+3]")["MaxPartialCharge"] == 3


def test_names_are_unique_and_many():
    assert len(set(DESCRIPTOR_NAMES)) == len(DESCRIPTOR_NAMES) == len(descriptors(Chem.MolFromSmiles("C")))


@pytest.mark.parametrize("smiles", ["[Na+].[Cl-]", "[Fe+3]", "*", "[H][H]", "[Pt](Cl)(Cl)(N)N", "C" * 800])
def test_odd_molecules_have_finite_values(smiles):
    molecule = Chem.MolFromSmiles(smiles)
    values = descriptors(molecule)
    assert (values.dtype, bool(np.isfinite(values).all())) == (np.float32, True)
    assert np.abs(values).max() <= 1e6
    assert fingerprint(molecule).any()
