"""What the numbers of a study say, in sentences: how much is done, planned tests, corrected comparisons, ranks."""

import math
from collections.abc import Sequence
from itertools import combinations

from outland.errors import counted
from outland.studies.comparisons import Comparison, PlannedTest
from outland.studies.results import Results
from outland.studies.statistics import LEVEL, holm, min_p


def enumerated(names: Sequence[str]) -> str:
    """Names as a sentence has them.

    >>> enumerated(["ERM", "IRM", "DIR"])
    'ERM, IRM and DIR'
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def describe_progress(results: Results) -> str:
    """How many cells and runs are there, and in which columns."""
    runs = {cell.name: len(results.records.get(cell.name, {})) for cell in results.cells}
    complete = [cell for cell in results.cells if runs[cell.name] == len(cell.specs)]
    whole, parts = list[str](), list[str]()
    for column in results.columns:
        number = sum(cell.column == column for cell in complete)
        if number == len(results.rows):
            whole.append(column.label)
        elif number:
            parts.append(f"{number} of {len(results.rows)} rows of {column.label}")
    begun = sum(runs[cell.name] > 0 for cell in results.cells) - len(complete)
    partly = [f"part of the seeds of {counted(begun, 'other cell')}"] if begun else []
    listed = enumerated([*([f"all rows of {enumerated(whole)}"] if whole else []), *parts, *partly])
    return (
        f"{len(complete)} of {len(results.cells)} cells are there so far, {sum(runs.values()):,} of "
        f"{counted(sum(len(cell.specs) for cell in results.cells), 'run')}{f': {listed}' if listed else ''}."
    )


def findings(results: Results) -> list[str]:
    """Sentences on the study's first quantity; none claims more than its test."""
    quantity = results.study.quantities[0]
    planned = {column.label: results.planned_tests(column, quantity) for column in results.columns}
    against = {label: tests[0] for label, tests in planned.items() if tests}
    rivals = {label: tests[1] for label, tests in planned.items() if len(tests) > 1}
    compared = {column.label: results.comparisons(column, quantity) for column in results.columns}
    compared = {label: tests for label, tests in compared.items() if tests}
    lines = [_planned(results, f"against {results.study.reference}", against)] if against else []
    if rivals:
        choice = "The rival is chosen by its test mean, which favours it: a lead over it is safely shown, a lag is not."
        lines.append(f"{_planned(results, 'against the best rival', rivals)} {choice}")
    lines += [_compared(results, compared), _error_rates(compared)] if compared else []
    return [*lines, *_ranked(results), *results.sampling_notes()]


def _planned(results: Results, against: str, tests: dict[str, PlannedTest]) -> str:
    """The planned tests of all columns against one rival, with p corrected over the columns beside each."""
    tested = {label: test for label, test in tests.items() if not math.isnan(test.p)}
    adjusted = dict(zip(tested, holm([test.p for test in tested.values()]), strict=True))
    sign, clauses = results.study.quantities[0].sign, list[str]()
    for label, test in tests.items():
        lead = "not shown to differ" if not test.p < LEVEL else "better" if sign * test.difference > 0 else "worse"
        p = f", p = {test.p:.2g}, {adjusted[label]:.2g} corrected over the columns" if label in tested else ""
        to = "" if test.rival == results.study.reference else f" to {test.rival}"
        numbers = f"{test.difference:+.2f}{to}, {counted(test.pairs, results.study.repeats[:-1])}{p}"
        clauses.append(f"{lead} on {label} ({numbers})")
    return f"**{results.study.planned} {against}**, by a planned test a column: {'; '.join(clauses)}."


def _compared(results: Results, compared: dict[str, dict[str, Comparison]]) -> str:
    """Who is shown to be better or worse than the reference, and by how much."""
    number, clauses = sum(map(len, compared.values())), list[str]()
    for effect in ("better", "worse"):
        cells = [
            f"{name} on {label} ({test.difference:+.2f})"
            for label, tests in compared.items()
            for name, test in sorted(tests.items(), key=lambda item: -abs(item[1].difference))
            if test.effect == effect
        ]
        verb = "is" if len(cells) < 2 else "are"
        clauses.append(f"{len(cells) or 'none'} {verb} {effect}" + (f", {enumerated(cells)}" if cells else ""))
    return (
        f"**Every row against {results.study.reference}:** of {counted(number, 'comparison')}, corrected by Holm's "
        f"method within each column, {'; '.join(clauses)}. The others are not shown to differ."
    )


def _error_rates(compared: dict[str, dict[str, Comparison]]) -> str:
    """The chance of a false claim in a column and in any, and what is left when all columns are corrected at once."""
    tests = [test for column in compared.values() for test in column.values() if not math.isnan(test.p)]
    left = sum(p < LEVEL for p in holm([test.p for test in tests]))
    weak = max((test.pairs for test in tests if len(tests) * min_p(test.pairs) >= LEVEL), default=0)
    few = f"with {weak} seeds or fewer none can: p is {min(1.0, len(tests) * min_p(weak)):.2g} or more" if weak else ""
    any_column = f", in any of the {len(compared)} at most {min(100, 100 * LEVEL * len(compared)):.0f}%"
    return (
        f"**How sure that is:** a false one is in a column with a chance of {100 * LEVEL:.0f}% at most{any_column}; "
        f"the same holds for either planned test before its correction over the columns. Of all {len(tests)} corrected "
        f"at once, {left or 'none'} would pass{f' ({few})' if few else ''}."
    )


def _ranked(results: Results) -> list[str]:
    """A sentence on the average ranks, where there are any."""
    ranking = results.ranks(results.study.quantities[0])
    if ranking is None:
        return []
    apart = sum(second - first > ranking.critical for first, second in combinations(ranking.ranks, 2))
    pairs, verb = counted(apart, "pair") if apart else "no pair", "are" if apart > 1 else "is"
    few = ", which with so few columns none can be" if ranking.critical >= len(ranking.rows) - 1 else ""
    return [
        f"**Average ranks** over the {ranking.columns} complete columns go from {ranking.ranks[0]:.2f} "
        f"({ranking.rows[0]}) to {ranking.ranks[-1]:.2f} ({ranking.rows[-1]}); "
        f"{pairs} of methods {verb} farther apart than the critical difference of {ranking.critical:.2f}{few}."
    ]
