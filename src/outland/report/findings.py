"""What the numbers of a study say, in sentences: how much is done, who beats the reference, planned tests, ranks."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from outland.errors import counted
from outland.studies.comparisons import Comparison, Effect, PlannedTest
from outland.studies.results import Results
from outland.studies.statistics import LEVEL, holm, min_p


def enumerated(names: Sequence[str]) -> str:
    """Names as a sentence has them.

    >>> enumerated(["ERM", "IRM", "DIR"])
    'ERM, IRM and DIR'
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def devices_phrase(results: Results) -> str:
    """What the runs were computed on; of several devices, how many runs on each."""
    devices = results.device_counts
    if len(devices) < 2:
        return devices[0][0] if devices else "no device"
    return enumerated([f"{name} ({counted(count, 'run')})" for name, count in devices])


def describe_progress(results: Results) -> str:
    """How many cells and runs of the paper's rows are there, and in which columns; and what there is of newer rows."""
    newer = results.study.newer
    runs = {cell.name: len(results.records.get(cell.name, {})) for cell in results.cells}
    cells = [cell for cell in results.cells if cell.row not in newer]
    complete = [cell for cell in cells if runs[cell.name] == len(cell.specs)]
    done, total = sum(runs[cell.name] for cell in cells), sum(len(cell.specs) for cell in cells)
    since = [f"{row.label} ({counted(count, 'run')})" for row in newer if (count := _runs_of(results, row.name))]
    more = f" Of methods since the paper there are {enumerated(since)}." if since else ""
    if len(complete) == len(cells):
        return f"All {len(cells)} cells are there, {counted(total, 'run')}.{more}"
    whole, parts = list[str](), list[str]()
    rows = {cell.row.name for cell in cells}
    for column in results.columns:
        number = sum(cell.column == column for cell in complete)
        if number == len(rows):
            whole.append(column.label)
        elif number:
            parts.append(f"{number} of {len(rows)} rows of {column.label}")
    begun = sum(runs[cell.name] > 0 for cell in cells) - len(complete)
    partly = [f"part of the seeds of {counted(begun, 'other cell')}"] if begun else []
    listed = enumerated([*([f"all rows of {enumerated(whole)}"] if whole else []), *parts, *partly])
    return (
        f"{len(complete)} of {len(cells)} cells are there so far, {done:,} of {counted(total, 'run')}"
        f"{f': {listed}' if listed else ''}.{more}"
    )


def _runs_of(results: Results, row: str) -> int:
    return sum(len(results.records.get(cell.name, {})) for cell in results.cells if cell.row.name == row)


def findings(results: Results) -> list[str]:
    """Five sentences on the study's first quantity, or fewer where less is there; none claims more than its test.

    They say who is better and who is worse than the reference, how the planned row does against the reference and
    against its best rival, and how sure all this is.
    """
    compared = column_comparisons(results)
    against, rivals = planned_columns(results)
    lines = [_better(results, compared), _worse(results, compared)] if compared else []
    lines += [_planned(results, against)] if against else []
    lines += [_rivals(results, rivals)] if rivals else []
    return [*lines, _certainty(results, compared)] if compared else lines


def column_comparisons(results: Results) -> dict[str, dict[str, Comparison]]:
    """The comparisons with the reference of each column that has any."""
    quantity = results.study.quantities[0]
    compared = {column.label: results.comparisons(column, quantity) for column in results.columns}
    return {label: tests for label, tests in compared.items() if tests}


def planned_columns(results: Results) -> tuple[dict[str, PlannedTest], dict[str, PlannedTest]]:
    """The planned tests by column: against the reference, and against the best rival."""
    quantity = results.study.quantities[0]
    planned = {column.label: results.planned_tests(column, quantity) for column in results.columns}
    against = {label: tests[0] for label, tests in planned.items() if tests}
    return against, {label: tests[1] for label, tests in planned.items() if len(tests) > 1}


def with_effect(results: Results, tests: Mapping[str, Comparison], effect: Effect) -> list[str]:
    """The rows of a column with that effect and their differences, the largest first."""
    labels = {row.name: row.label for row in results.rows}
    found = [(name, test.difference) for name, test in tests.items() if test.effect == effect]
    return [f"{labels[name]} ({value:+.1f})" for name, value in sorted(found, key=lambda item: -abs(item[1]))]


def planned_effect(results: Results, test: PlannedTest) -> Effect:
    """What a planned test shows, each column by itself."""
    if not test.p < LEVEL:
        return "not shown"
    return "better" if results.study.quantities[0].sign * test.difference > 0 else "worse"


def _better(results: Results, compared: Mapping[str, Mapping[str, Comparison]]) -> str:
    """Who is shown to be better than the reference, where, and by how much."""
    reference, number = results.study.reference, sum(map(len, compared.values()))
    cells = {label: with_effect(results, tests, "better") for label, tests in compared.items()}
    clauses = [f"{enumerated(names)} on {label}" for label, names in cells.items() if names]
    if not clauses:
        return f"**No method is shown to be better than {reference}** in any of {counted(number, 'comparison')}."
    count = sum(map(len, cells.values()))
    verb = "is" if count == 1 else "are"
    where = f"{count} of {counted(number, 'comparison')} (differences in points, over the seeds that both have)"
    return f"**Better than {reference}** in {where} {verb} {'; '.join(clauses)}."


def _worse(results: Results, compared: Mapping[str, Mapping[str, Comparison]]) -> str:
    """How many rows are shown to be worse than the reference in each column, and how many of all not to differ."""
    tests = [test for column in compared.values() for test in column.values()]
    counts = {label: sum(test.effect == "worse" for test in column.values()) for label, column in compared.items()}
    clauses = [f"{number} on {label}" for label, number in counts.items() if number]
    total, same = sum(counts.values()), sum(test.effect == "not shown" for test in tests)
    where = f": {enumerated(clauses)}, as the first table below has them" if clauses else ""
    return (
        f"**Worse than {results.study.reference}** in {total or 'none'} of them{where}; in the other {same} no "
        "difference is shown."
    )


def _clauses(results: Results, tests: Mapping[str, PlannedTest], verbs: Mapping[Effect, str]) -> Iterator[str]:
    """For each effect the columns in which a planned test shows it, with difference and p."""
    for effect, verb in verbs.items():
        columns = []
        for label, test in tests.items():
            if planned_effect(results, test) == effect:
                rival = "" if test.rival == results.study.reference else f" to {test.rival}"
                p = "" if math.isnan(test.p) else f", p = {test.p:.2g}"
                columns.append(f"{label} ({test.difference:+.1f}{rival}{p})")
        if columns:
            yield f"{verb} {enumerated(columns)}"


def _planned(results: Results, tests: Mapping[str, PlannedTest]) -> str:
    """How the planned row does against the reference."""
    verbs: dict[Effect, str] = {"better": "is ahead of it on", "worse": "is behind it on"}
    verbs["not shown"] = "is not shown to differ on"
    clauses = "; ".join(_clauses(results, tests, verbs))
    pair = f"{results.study.planned} against {results.study.reference}"
    return f"**{pair}**, by one planned test a column, not corrected, {clauses}."


def _rivals(results: Results, tests: Mapping[str, PlannedTest]) -> str:
    """How the planned row does against the best other of the paper's rows, column by column."""
    verbs: dict[Effect, str] = {"better": "it is ahead on", "worse": "it is behind on"}
    verbs["not shown"] = "no difference is shown on"
    clauses = "; ".join(_clauses(results, tests, verbs))
    return f"**Against the best other method of the paper**, column by column, {clauses}."


def _certainty(results: Results, compared: Mapping[str, Mapping[str, Comparison]]) -> str:
    """The chance of a false claim in a column and in any, what all columns corrected at once leave, and the ranks."""
    tests = [test for column in compared.values() for test in column.values() if not math.isnan(test.p)]
    left = sum(p < LEVEL for p in holm([test.p for test in tests]))
    weak = max((test.pairs for test in tests if len(tests) * min_p(test.pairs) >= LEVEL), default=0)
    few = f" (with {weak} seeds or fewer none can)" if weak else ""
    chance = f"at most {100 * LEVEL:.0f}% in a column"
    if len(compared) > 1:
        chance += f" and {min(100, 100 * LEVEL * len(compared)):.0f}% in any of the {len(compared)}"
    return (
        f"**How sure that is:** the chance of a false claim is {chance}, and as much again by each of the two "
        f"planned tests. Of the {len(tests)} comparisons corrected all at once, {left or 'none'} would pass{few}."
        f"{_ranked(results)}"
    )


def _ranked(results: Results) -> str:
    """A clause on the average ranks, where there are any."""
    ranking = results.ranks(results.study.quantities[0])
    if ranking is None:
        return ""
    apart = sum(second - first > ranking.critical for first, second in combinations(ranking.ranks, 2))
    pairs = f"{counted(apart, 'pair')} of methods {'are' if apart > 1 else 'is'}" if apart else "no two methods are"
    return f" By average rank {pairs} farther apart than the critical difference of {ranking.critical:.1f}."
