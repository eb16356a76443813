"""What one table of molecules has that another has not."""

import pytest

from outland.errors import OutlandError
from outland.shift.novelty import compare_tables


def table(path, smiles):
    path.write_text("smiles\n" + "".join(f"{molecule}\n" for molecule in smiles))
    return path


def test_unseen_scaffolds_are_counted_and_named(tmp_path):
    old = table(tmp_path / "old.csv", ["c1ccccc1O", "c1ccccc1N", "CCO", "C1CCCCC1C"])
    new = table(tmp_path / "new.csv", ["c1ccncc1C", "c1ccncc1O", "c1ccccc1C", "C1CC1C", "CCN", "nonsense"])
    novelty = compare_tables(old, new, "smiles")
    assert novelty.new_scaffolds == (("c1ccncc1", 2), ("C1CC1", 1))
    assert (novelty.scaffolds, novelty.molecules) == (3, 4)
    assert novelty.sentence("old", "new") == (
        "By scaffold, 2 of the 3 of new, with 3 of its 4 molecules that have one, are not in old; the commonest: "
        "c1ccncc1 (2), C1CC1 (1)."
    )
    assert compare_tables(old, old, "smiles").sentence("a", "b") == "Every scaffold of b is in a too."
    with pytest.raises(OutlandError, match=r"no row of .* can be read"):
        compare_tables(old, table(tmp_path / "bad.csv", ["water"]), "smiles")


def test_like_molecules_have_like_coordinates(tmp_path):
    rings = table(tmp_path / "rings.csv", [f"c1ccccc1{'C' * size}" for size in range(1, 9)])
    chains = table(tmp_path / "chains.csv", [f"{'C' * size}OC(=O)N" for size in range(4, 12)])
    novelty = compare_tables(rings, chains, "smiles")
    (first, second), centre = novelty.coordinates, novelty.coordinates[0].mean(0)
    assert first.shape == second.shape == (8, 2)
    assert max(abs(first[:, 0] - centre[0])) < min(abs(second[:, 0] - centre[0]))
    assert 0.3 < novelty.explained_variance <= 1
