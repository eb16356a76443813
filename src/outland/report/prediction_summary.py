"""What came out of predicting a table or a dataset's part, in plain words."""

from outland.errors import counted
from outland.models import TrainedModel
from outland.models.messages import threshold_phrase
from outland.models.table_predictions import TableReport
from outland.tables.duplicates import training_rows_note


def prediction_lines(model: TrainedModel, report: TableReport) -> list[str]:
    """How many rows there were, what could not be read, what rows were called and how unusual they are."""
    readable = report.rows - report.bad
    lines = [f"{report.out}: {counted(report.rows, 'row')} in {report.seconds:.0f} s; {report.bad:,} cannot be read"]
    for reason, count in report.problems.most_common(3):
        lines.append(f"  {counted(count, 'row')}: {reason} (first: row {report.first[reason]:,})")
    several = len(model.targets) > 1
    for target, classes in report.classes.items():
        names = ", ".join(f"{name} {count:,}" for name, count in sorted(classes.items()))
        lines.append(f"called{f' ({target})' if several else ''}: {names}")
    if len(model.classes) == 2 and not several:
        lines.append(f"outland_probability is of '{model.classes[1]}'; a row is {threshold_phrase(model)}")
    elif len(model.classes) == 2:
        lines.append(f"outland_probability_TARGET is of '{model.classes[1]}'")
    if model.distance is not None:
        flags = ", ".join(f"{flag} {report.flags[flag]:,}" for flag in ("near", "edge", "far"))
        lines.append(f"distance: {flags} of {readable:,}")
    note = training_rows_note(report.training_rows, report.rows)
    return [*lines, *([f"{note}."] if note else [])]
