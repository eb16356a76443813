"""What one table of molecules has that another has not."""

import pytest

from outland.errors import OutlandError
from outland.report.shift_map import draw_map
from outland.shift.novelty import compare_tables


def table(path, smiles):
    path.write_text("smiles\n" + "".join(f"{one}\n" for one in smiles))
    return path


def test_unseen_scaffolds_are_counted_and_named(tmp_path):
    old = table(tmp_path / "old.csv", ["c1ccccc1O", "c1ccccc1N", "CCO", "C1CCCCC1C"])
    new = table(tmp_path / "new.csv", ["c1ccncc1C", "c1ccncc1O", "c1ccccc1C", "C1CC1C", "CCN", "nonsense"])
    found = compare_tables(old, new, "smiles")
    assert found.unseen == (("c1ccncc1", 2), ("C1CC1", 1))
    assert (found.scaffolds, found.molecules) == (3, 4)
    assert found.sentence("old", "new") == (
        "By scaffold, 2 of the 3 of new, with 3 of its 4 molecules that have one, are not in old; the commonest: "
        "c1ccncc1 (2), C1CC1 (1)."
    )
    assert compare_tables(old, old, "smiles").sentence("a", "b") == "Every scaffold of b is in a too."
    with pytest.raises(OutlandError, match=r"no row of .* can be read"):
        compare_tables(old, table(tmp_path / "bad.csv", ["water"]), "smiles")


def test_the_map_puts_like_beside_like(tmp_path):
    rings = table(tmp_path / "rings.csv", [f"c1ccccc1{'C' * size}" for size in range(1, 9)])
    chains = table(tmp_path / "chains.csv", [f"{'C' * size}OC(=O)N" for size in range(4, 12)])
    found = compare_tables(rings, chains, "smiles")
    (one, other), centre = found.maps, found.maps[0].mean(0)
    assert one.shape == other.shape == (8, 2)
    assert max(abs(one[:, 0] - centre[0])) < min(abs(other[:, 0] - centre[0]))
    assert 0.3 < found.kept <= 1
    draw_map(found, ("rings.csv", "chains.csv"), tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size > 10_000
