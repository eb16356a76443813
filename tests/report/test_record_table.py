"""The scores of a run on the terminal."""

from pathlib import Path

from outland.report.record_table import print_record
from outland.training import RunSpec, run


def test_every_rule_has_a_row_and_the_selected_one_a_star(motif, cache, tmp_path, capsys):
    spec = RunSpec.from_words("motif", "erm", ["data.limit=24", "backbone.width=8", "train.epochs=2"])
    record = run(spec, tmp_path, device="cpu", cache=cache)
    capsys.readouterr()
    print_record(record, Path("runs/here"))
    text = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if "│" in line]
    assert [row[0].removesuffix(" *") for row in rows] == list(record.selection)
    (selected,) = [row for row in rows if row[0].endswith(" *")]
    scores = record.selection[record.selected]
    assert selected[1:] == [
        str(scores["epoch"]),
        *(f"{100 * scores[part]:.2f}" for part in ("id_val", "id_test", "val", "test")),
    ]
    assert f"* the saved model; {record.parameters['total']:,} parameters" in text
    assert "accuracy, in %" in text
    assert text.splitlines()[-1] == "record: runs/here/record.json"
