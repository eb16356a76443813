"""Sentences that stand beside a study's numbers: what is not the paper's, what is missing, what cannot be shown."""

from outland.errors import counted
from outland.studies.quantities import Quantity
from outland.studies.results import Results
from outland.studies.statistics import LEVEL, min_p


def notices(results: Results) -> list[str]:
    """Sentences to print beside every number: that it is not the paper's setting, or not the whole study."""
    lines, changed = [], [*results.words, *(["settings that searches have found"] if results.tuned else [])]
    if results.repeats != results.study.seeds and not results.has_default_counts:
        changed.append(f"{counted(results.repeats, results.study.repeats[:-1])}, not {results.study.seeds}")
    if changed:
        listed = ", ".join(changed)
        lines.append(f"Our numbers are not of the paper's setting ({listed}); the published ones beside them are.")
    if not results.is_whole:
        cells = len(results.study.rows) * len(results.study.columns)
        lines.append(f"This is a part of the study: {len(results.cells)} of its {cells} cells.")
    return lines


def stand_in_note(results: Results) -> str:
    """A sentence on the columns whose graphs stand in for published ones; empty where there is none."""
    stand_ins = dict.fromkeys(
        cell.column.label
        for cell in results.cells
        for record in results.records.get(cell.name, {}).values()
        if record.data.get("superpixels") == "stand-in"
    )
    if not stand_ins:
        return ""
    return f"{', '.join(stand_ins)}: the graphs are a stand-in for the published superpixels (see docs/data.md)."


def sampling_notes(results: Results) -> list[str]:
    """A sentence for each column whose ROC-AUC rests on few graphs, with the interval of its first row's."""
    lines = []
    for column in results.columns:
        intervals = ((row, results.auc_interval(row, column)) for row in results.rows)
        row, interval = next((pair for pair in intervals if pair[1] is not None), (None, None))
        if row is not None and interval is not None:
            name, (low, high, positives, negatives) = results.study.display_name(row), interval
            lines.append(
                f"{column.label}: the test part has {positives:,} positives and {negatives:,} negatives, so on "
                f"other graphs of its kind the score of {name} could be anywhere from {low:.1f} to {high:.1f} "
                "(95%, Hanley and McNeil)."
            )
    return lines


def missing_note(results: Results, quantity: Quantity) -> str:
    """A sentence on the cells that have some of their runs; empty where there is none."""
    parts = []
    for cell in results.cells:
        count = len(results.values(cell.row, cell.column, quantity))
        if 0 < count < len(cell.specs):
            name = f"{results.study.display_name(cell.row)} on {cell.column.label}"
            parts.append(f"{name} ({count} of {len(cell.specs)})")
    return f"Of some cells runs are missing: {'; '.join(parts)}." if parts else ""


def power_note(results: Results, quantity: Quantity) -> str:
    """A sentence where the seeds are too few for any difference to be shown; else an empty string."""
    tested = {
        column.label: compared for column in results.columns if (compared := results.comparisons(column, quantity))
    }
    weak: dict[str, tuple[int, int]] = {}
    for label, compared in tested.items():
        pairs = max(comparison.pairs for comparison in compared.values())
        comparisons = next(iter(compared.values())).comparisons
        if min_p(pairs) * comparisons >= LEVEL:
            weak[label] = pairs, comparisons
    if not weak:
        return ""
    pairs, comparisons = next(iter(weak.values()))
    if pairs == 1:
        return "With one run a cell no difference can be tested."
    where = "" if len(weak) == len(tested) else f" ({', '.join(weak)})"
    return (
        f"With {pairs} {results.study.repeats} and {counted(comparisons, 'comparison')} a column{where}, no "
        f"difference can pass the test: the corrected p cannot fall below {min(1, min_p(pairs) * comparisons):.2g}."
    )
