import os

import pytest

from outland.datasets import find_dataset
from outland.errors import OutlandError
from outland.graphs import Cache
from outland.report.counts import Cell, compare, render
from outland.report.findings import findings
from outland.report.gallery import draw_gallery
from outland.report.published import paper_table
from outland.tables import TableSettings
from outland.tables.smiles_table import SmilesTable
from tests.conftest import SAMPLES


def test_statistics_of_motif_equal_the_papers(cache, monkeypatch):
    monkeypatch.setenv("OUTLAND_CACHE", str(cache.folder))
    cells, notes = compare(["motif"])
    assert len(cells) == 18
    assert all(cell.equal for cell in cells)
    assert notes == []


def test_statistics_of_molecules_equal_the_papers_but_for_a_shuffle(cache, data, monkeypatch):
    monkeypatch.setenv("OUTLAND_CACHE", str(cache.folder))
    cells, notes = compare(["molbbbp", "molhiv"], data)
    assert len(cells) == 36
    unequal = [(cell.column, cell.part, cell.quantity) for cell in cells if not cell.equal]
    assert unequal == [("molbbbp-size", part, what) for part in ("val", "test") for what in ("nodes", "edges")]
    assert any("two halves of one shuffled set" in note for note in notes)


def test_missing_data_is_a_note_not_a_crash(tmp_path, monkeypatch):
    from outland.datasets import DataFolder

    monkeypatch.setenv("OUTLAND_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("outland.storage.raw_files.download", _no_network)
    cells, notes = compare(["molbbbp"], DataFolder(tmp_path))
    assert all(cell.ours is None for cell in cells)
    assert "moleculenet/BBBP.csv" in notes[0]
    assert render(cells).row_count == 9


def _no_network(*args):
    raise OSError("no network")


def test_unknown_dataset_of_the_paper():
    with pytest.raises(OutlandError, match="Did you mean 'motif'"):
        compare(["motiff"])


def test_cells_compare_to_the_printed_digits():
    assert Cell("a", "train", "nodes", 17.07, 17.0652).equal
    assert not Cell("a", "train", "nodes", 17.07, 17.0649).equal
    assert paper_table("statistics")["train"]["graphs"][0] == 18000


def test_findings_of_a_table(tmp_path):
    table = SmilesTable(TableSettings(str(SAMPLES / "bbbp.csv"), target="p_np"))
    lines = findings(table.load("scaffold", "covariate", cache=Cache(tmp_path)))
    text = "\n".join(lines)
    assert "298 of 300 rows are usable; 2 set aside" in text
    assert "task: binary, scored by rocauc" in text
    assert "training environments, by scaffold" in text


@pytest.mark.parametrize("source", ["motif", "table"])
def test_gallery_is_drawn(source, cache, tmp_path):
    from matplotlib.image import imread

    if source == "motif":
        dataset = find_dataset("motif")
        splits = dataset.load("base", "covariate", cache=cache)
    else:
        dataset = SmilesTable(TableSettings(str(SAMPLES / "bbbp.csv"), target="p_np"))
        splits = dataset.load("scaffold", "covariate", cache=Cache(tmp_path))
    draw_gallery(dataset, splits, tmp_path / "gallery.png")
    pixels = imread(tmp_path / "gallery.png")
    assert pixels.shape[1] == 960
    assert pixels.std() > 0.05
    assert os.path.getsize(tmp_path / "gallery.png") > 20000
