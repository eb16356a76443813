"""Counts of graphs, nodes and edges beside the paper's table."""

from dataclasses import dataclass

from rich.table import Table

from outland.datasets import DataFolder, find_dataset
from outland.errors import OutlandError, unknown
from outland.graphs import Splits
from outland.report.published import paper_table


@dataclass(frozen=True)
class Cell:
    """One number of the paper's table and ours; None where it could not be had."""

    column: str
    part: str
    quantity: str
    paper: float
    ours: float | None

    @property
    def equal(self) -> bool:
        """Whether they agree to the digits the paper prints."""
        return self.ours is not None and round(self.ours, 2) == self.paper


def compare(only: list[str], data: DataFolder | None = None) -> tuple[list[Cell], list[str]]:
    """Every cell of the paper's statistics for these datasets (or all), and notes on what to know of ours."""
    published = paper_table("statistics")
    names = {column.partition("-")[0] for column in published["columns"]}
    for name in only:
        if name not in names:
            raise unknown("dataset of the paper", name, names)
    cells: list[Cell] = []
    notes: list[str] = []
    for place, column in enumerate(published["columns"]):
        dataset, _, domain = column.partition("-")
        if only and dataset not in only:
            continue
        splits = _load(dataset, domain, data, notes)
        for part in ("train", "val", "test"):
            ours = _counts(splits, part) if splits is not None else {}
            for quantity in ("graphs", "nodes", "edges"):
                paper = float(published[part][quantity][place])
                cells.append(Cell(column, part, quantity, paper, ours.get(quantity)))
    if any(cell.column == "molbbbp-size" and not cell.equal for cell in cells):
        notes.append(
            "molbbbp size: val and test are two halves of one shuffled set; which molecule is in which depends on the "
            "seed and on how ties were sorted, which the paper does not say"
        )
    return cells, notes


def _load(dataset: str, domain: str, data: DataFolder | None, notes: list[str]) -> Splits | None:
    try:
        splits = find_dataset(dataset).load(domain, "covariate", data=data)
    except OutlandError as problem:
        notes.append(f"{dataset} {domain}: {problem}")
        return None
    if "superpixels" in splits.source:
        notes.append(f"{dataset}: {splits.source['superpixels']} superpixels")
    return splits


def _counts(splits: Splits, part: str) -> dict[str, float]:
    graphs = splits.part(part)
    nodes, edges = graphs.node_counts.double(), graphs.edge_counts.double()
    return {"graphs": float(len(graphs)), "nodes": float(nodes.mean()), "edges": float(edges.mean())}


def render(cells: list[Cell]) -> Table:
    """A table for the terminal: our number, and the paper's where it is another."""
    columns = list(dict.fromkeys(cell.column for cell in cells))
    table = Table(
        "", *(column.replace("-", "\n") for column in columns), title="Ours, and the paper's where it differs (≠)"
    )
    for part, quantity in dict.fromkeys((cell.part, cell.quantity) for cell in cells):
        row = [cell for cell in cells if (cell.part, cell.quantity) == (part, quantity)]
        table.add_row(f"{part} {quantity}", *(_shown(cell) for cell in row))
    return table


def _shown(cell: Cell) -> str:
    digits = 0 if cell.quantity == "graphs" else 2
    if cell.ours is None:
        return f"[dim]– ({cell.paper:.{digits}f})[/]"
    mark = "[green]=[/]" if cell.equal else f"[yellow]≠ {cell.paper:.{digits}f}[/]"
    return f"{cell.ours:.{digits}f} {mark}"
