"""A study's tables on the terminal, in as many parts as its width asks for."""

from collections.abc import Iterator, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column as Header
from rich.table import Table
from rich.text import Text

from outland.report.study_text import TableLine, caption, remarks, table_lines
from outland.studies import Cell, Column, Row
from outland.studies.quantities import Quantity
from outland.studies.results import Results

_STYLES = {"best": "bold", "second": "underline"}


def plan_table(cells: Sequence[Cell], states: Mapping[str, Sequence[str]]) -> Table:
    """The runs of every cell: done of all, with a mark where some failed or have begun."""
    columns = list({cell.column.label: cell.column for cell in cells}.values())
    headers = [Header(), *map(_header, columns)]
    table = Table(*headers, box=SIMPLE_HEAD, padding=(0, 0, 0, 1))  # narrow: eight columns stand in 80
    texts: dict[tuple[str, str], str] = {}
    for cell in cells:
        runs = states[cell.name]
        mark = "!" if "failed" in runs else "…" if "begun" in runs else ""
        texts[cell.row.name, cell.column.label] = f"{runs.count('done')}/{len(runs)}{mark}"
    group = ""
    for row in {cell.row.name: cell.row for cell in cells}.values():
        group = _begin_group(table, row, group)
        table.add_row(row.label, *(texts.get((row.name, column.label), "") for column in columns))
    return table


def _begin_group(table: Table, row: Row, group: str) -> str:
    """Add a line with the name of the row's group, unless it is the one before; returns the row's group."""
    if row.group != group:
        table.add_section()
        table.add_row(Text(row.group, "italic"))
    return row.group


def terminal_tables(results: Results, width: int) -> list[tuple[list[Table], list[str]]]:
    """For each quantity its table, caption and notes: best bold, second underlined, ▲ ▼ where a difference is shown.

    A table that is wider than the terminal comes in parts, each with some of the columns and all of the rows, so that
    neither a heading nor a number is cut.
    """
    quantities = results.study.quantities
    return [
        (_parts(results, quantity, width), [caption(results, quantity), *remarks(results, quantity)])
        for quantity in quantities
    ]


def _parts(results: Results, quantity: Quantity, width: int) -> list[Table]:
    """The table of a quantity in the fewest parts that fit; the last try has a column each."""
    lines, tables = table_lines(results, quantity), list[Table]()
    for number in range(1, len(results.columns) + 1):
        tables = [_table(results, quantity, lines, part) for part in _divided(len(results.columns), number)]
        if all(Console(width=10_000).measure(table).maximum <= width for table in tables):
            break
    return tables


def _divided(count: int, parts: int) -> Iterator[slice]:
    """So many parts of nearly equal length.

    >>> [range(7)[part] for part in _divided(7, 3)]
    [range(0, 3), range(3, 5), range(5, 7)]
    """
    least, more = divmod(count, parts)
    start = 0
    for part in range(parts):
        stop = start + least + (part < more)
        yield slice(start, stop)
        start = stop


def _table(results: Results, quantity: Quantity, lines: Sequence[TableLine], part: slice) -> Table:
    """Some of a table's columns; rows of a group stand below its name."""
    columns = results.columns[part]
    table = Table(Header(), Header(), *map(_header, columns), title_justify="left")
    table.title = f"{results.study.title} · {quantity.title}"
    group = ""
    for line in lines:
        if not line.method and set(line.texts[part]) == {"–"}:
            continue  # nothing is published of these columns
        group = _begin_group(table, line.row, group)
        default = "" if line.source == "ours" else "dim"
        marked = zip(line.texts[part], line.marks[part], strict=True)
        cells = [Text(text, _STYLES.get(mark, default)) for text, mark in marked]
        table.add_row(line.row.label if line.method else "", Text(line.source, "dim"), *cells)
    return table


def _header(column: Column) -> Header:
    """The heading of a column, on two lines where it has a domain."""
    return Header(column.label.replace("-", "-\n", 1), justify="right", no_wrap=True)
