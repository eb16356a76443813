import pytest
from rich.console import Console

from outland.datasets import DataFolder
from outland.errors import OutlandError
from outland.report.counts import Count, compare_counts, counts_table
from outland.report.published import paper_table


def test_statistics_of_motif_equal_the_papers(cache, monkeypatch):
    monkeypatch.setenv("OUTLAND_CACHE", str(cache.folder))
    counts, notes = compare_counts(["motif"])
    assert len(counts) == 18
    assert all(count.equal for count in counts)
    assert notes == []


def test_statistics_of_molecules_equal_the_papers_but_for_a_shuffle(cache, data, monkeypatch):
    monkeypatch.setenv("OUTLAND_CACHE", str(cache.folder))
    counts, notes = compare_counts(["molbbbp", "molhiv"], data)
    assert len(counts) == 36
    unequal = [(count.column, count.part, count.quantity) for count in counts if not count.equal]
    assert unequal == [("molbbbp-size", part, what) for part in ("val", "test") for what in ("nodes", "edges")]
    assert any("two halves of one shuffled set" in note for note in notes)


def test_the_table_shows_the_papers_number_where_it_differs_and_no_markup():
    columns = paper_table("statistics")["columns"]
    pairs = [
        (48.89, 48.89),
        (43.57, 43.57),
        (1392.76, 1399.64),
        (48.43, 48.43),
        (58.71, 58.7),
        (56.68, None),
        (60.2, 60.2),
    ]
    counts = [Count(column, "train", "edges", *pair) for column, pair in zip(columns, pairs, strict=True)]
    counts += [Count(column, "train", "graphs", 42000, 42000) for column in columns]
    console = Console(width=80, record=True, markup=False)  # as commands print
    console.print(counts_table(counts))
    lines = console.export_text().splitlines()
    assert sum(line.count("≠") for line in lines[1:]) == 2  # the title has one, too
    for shown in ("1399.64", "≠ 1392.76", "58.70", "≠ 58.71", "(56.68)", "–"):
        assert sum(line.count(shown) for line in lines) == 1
    assert sum(line.count("42000") for line in lines) == 7
    assert not any("[" in line or "…" in line for line in lines)


def test_missing_data_is_a_note_not_a_crash(tmp_path, monkeypatch):
    monkeypatch.setenv("OUTLAND_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("outland.storage.raw_files.download", _no_network)
    counts, notes = compare_counts(["molbbbp"], DataFolder(tmp_path))
    assert all(count.ours is None for count in counts)
    assert "moleculenet/BBBP.csv" in notes[0]
    assert counts_table(counts).row_count == 9


def _no_network(*args):
    raise OSError("no network")


def test_unknown_dataset_of_the_paper():
    with pytest.raises(OutlandError, match="Did you mean 'motif'"):
        compare_counts(["motiff"])


def test_counts_compare_to_the_printed_digits():
    assert Count("a", "train", "nodes", 17.07, 17.0652).equal
    assert not Count("a", "train", "nodes", 17.07, 17.0649).equal
    assert paper_table("statistics")["train"]["graphs"][0] == 18000
