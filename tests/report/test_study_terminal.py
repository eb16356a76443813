import io
import re

import pytest
from rich.console import Console

from outland.report.study_terminal import plan_table, terminal_tables
from outland.studies import STUDIES
from tests.report.cases import scores
from tests.studies.cases import made


def printed(table, width: int) -> list[str]:
    """The lines of a table on a terminal of so many columns."""
    stream = io.StringIO()
    Console(file=stream, width=width).print(table)
    return stream.getvalue().splitlines()


def test_a_wide_terminal_has_one_table_of_all_three_sources():
    (((table,), notes),) = terminal_tables(made("covariate", scores), 200)
    assert notes[0].startswith("mean ± standard deviation over seeds; best bold, second underlined")
    assert table.row_count == 18 + 18 + 8


@pytest.mark.parametrize(
    ("width", "columns", "rows"), [(80, [3, 2, 2], [44, 36, 44]), (120, [4, 3], [44, 44]), (200, [7], [44])]
)
def test_a_narrow_terminal_has_the_columns_in_parts(width, columns, rows):
    """The leaderboard has no Molbbbp, so of the two columns in the middle there is no line of it."""
    ((tables, _),) = terminal_tables(made("covariate", scores), width)
    assert [len(table.columns) - 2 for table in tables] == columns
    assert [table.row_count for table in tables] == rows


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", STUDIES)
def test_no_heading_and_no_number_is_cut_or_folded(name, width):
    results = made(name, lambda row, column, seed: scores(row, column, seed) + 0.1 * (seed % 2), newer=True)
    for tables, _ in terminal_tables(results, width):
        lines = [line for table in tables for line in printed(table, width)]
        assert max(map(len, lines)) <= width
        assert "…" not in "".join(lines)
        assert "\n".join(lines).count("±") == len(re.findall(r"\d ± \d", "\n".join(lines)))
        for column in results.columns:
            first, _, second = column.label.partition("-")
            assert any(first in line for line in lines)
            assert any(second in line for line in lines)


def test_rows_of_a_group_stand_below_its_name():
    ((tables, _),) = terminal_tables(made("covariate", scores, newer=True), 80)
    first = [line.split("│")[1].strip() for line in printed(tables[0], 80) if "│" in line]
    place = first.index("since the paper")
    assert first[place + 1 : place + 4] == ["PrunE", "ERM + unit readout", "LECI"]
    assert first[-2:] == ["ours", "Evidence"]


def test_a_plan_of_seven_columns_stands_in_eighty():
    results = made("covariate", scores, newer=True)
    states = {cell.name: ["done"] * 19 + ["begun"] for cell in results.cells}
    lines = printed(plan_table(results.cells, states), 80)
    assert any(line.split() == ["base", "size", "color", "scaffold", "size", "scaffold", "size"] for line in lines)
    assert "(released)" in "\n".join(lines)
    assert sum(line.count("19/20…") for line in lines) == 25 * 7
