"""The scores of a run under every selection rule, on the terminal."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from outland.models.messages import format_score
from outland.training import RunRecord


def print_record(record: RunRecord, folder: Path) -> None:
    """Print the scores of every part under every rule, and where the record is."""
    parts = [part for part in ("id_val", "id_test", "val", "test") if part in record.selection[record.selected]]
    unit = "" if record.metric == "rmse" else ", in %"
    table = Table("chosen by", "epoch", *parts, title=f"{record.metric}{unit}")
    for name, row in record.selection.items():
        scores = [format_score(row[part], record.metric) for part in parts]
        table.add_row(f"{name} *" if name == record.selected else name, str(row["epoch"]), *scores)
    screen = Console(soft_wrap=True)
    screen.print(table)
    screen.print(f"* the saved model; {record.parameters['total']:,} parameters; {record.timing['seconds']:.0f} s")
    if "superpixels" in record.data:
        screen.print(f"on {record.data['superpixels']} superpixels")
    print(f"record: {folder / 'record.json'}")
