"""Counts of graphs, nodes and edges beside the paper's table."""

from dataclasses import dataclass

from rich import box
from rich.table import Column, Table
from rich.text import Text

from outland.datasets import DataFolder, find_dataset
from outland.errors import OutlandError, unknown
from outland.graphs import Splits
from outland.report.published import paper_table


@dataclass(frozen=True)
class Count:
    """One number of the paper's table and ours, which is None where the dataset cannot be loaded."""

    column: str
    part: str
    quantity: str
    paper: float
    ours: float | None

    @property
    def equal(self) -> bool:
        """Whether the two agree to the paper's digits."""
        return self.ours is not None and round(self.ours, 2) == self.paper


def compare_counts(only: list[str], data: DataFolder | None = None) -> tuple[list[Count], list[str]]:
    """All counts of the paper's statistics for these datasets, or for all, and notes on ours."""
    published = paper_table("statistics")
    names = {column.partition("-")[0] for column in published["columns"]}
    for name in only:
        if name not in names:
            raise unknown("dataset of the paper", name, names)
    counts, notes = list[Count](), list[str]()
    for index, column in enumerate(published["columns"]):
        dataset, _, domain = column.partition("-")
        if only and dataset not in only:
            continue
        splits = _load(dataset, domain, data, notes)
        for part in ("train", "val", "test"):
            ours = {} if splits is None else _counts(splits, part)
            for quantity in ("graphs", "nodes", "edges"):
                paper = float(published[part][quantity][index])
                counts.append(Count(column, part, quantity, paper, ours.get(quantity)))
    if any(count.column == "molbbbp-size" and not count.equal for count in counts):
        notes.append(
            "molbbbp size: val and test are two halves of one shuffled set; which molecule is in which depends on the "
            "seed and on how ties were sorted, which the paper does not say"
        )
    return counts, notes


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


def counts_table(counts: list[Count]) -> Table:
    """A table for the terminal: our number, and the paper's where it differs."""
    columns = list(dict.fromkeys(count.column for count in counts))
    headers = (Column(column.replace("-", "\n"), justify="right") for column in columns)
    title = "Our counts, and below them the paper's where they differ (≠)"
    table = Table("", *headers, title=title, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for part, quantity in dict.fromkeys((count.part, count.quantity) for count in counts):
        row = [count for count in counts if (count.part, count.quantity) == (part, quantity)]
        table.add_row(f"{part} {quantity}", *(_format(count) for count in row))
    return table


def _format(count: Count) -> Text:
    digits = 0 if count.quantity == "graphs" else 2
    paper = f"{count.paper:.{digits}f}"
    if count.ours is None:
        return Text(f"–\n({paper})", style="dim")
    ours = f"{count.ours:.{digits}f}"
    return Text(ours, style="green") if count.equal else Text.assemble(ours, (f"\n≠ {paper}", "yellow"))
