"""A whole set of graphs in a handful of flat tensors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from outland.errors import OutlandError
from outland.graphs.edges import edge_blocks, reverse_edges, rows_of_graphs, starts_by_edge, to_smallest_int

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True)
class PackedGraphs:
    """Every graph of a set, one after another.

    The counts stay on the host wherever the rest lives, so that the shape of a batch is known without asking
    the device. Edges name the nodes of their own graph, counted from 0, in the smallest type of whole number that
    holds them; an undirected edge stands twice.

    Shapes: `G` graphs, `N` nodes and `E` directed edges in all.

    Args:
        x: node features `[N, F]`, real numbers or categories.
        edge_index: source and target of each edge `[2, E]`.
        node_counts, edge_counts: the size of each graph `[G]`, on the host.
        y: labels, `[G]` or `[G, T]` (see `Task`).
        reverse: position, among its graph's edges, of each edge's other direction `[E]`; itself if it has none.
        edge_attr: edge features `[E, F_e]`.
        environment: environment of each graph `[G]`.
        node_truth, edge_truth: which nodes and edges the label rests on, where that is known.
        extra: any other fact, one row a graph.
    """

    x: Tensor
    edge_index: Tensor
    node_counts: Tensor
    edge_counts: Tensor
    y: Tensor
    reverse: Tensor
    edge_attr: Tensor | None = None
    environment: Tensor | None = None
    node_truth: Tensor | None = None
    edge_truth: Tensor | None = None
    extra: Mapping[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        graphs, nodes, edges = len(self.node_counts), int(self.node_counts.sum()), int(self.edge_counts.sum())
        lengths = {
            **dict.fromkeys(("node_counts", "edge_counts", "y", "environment", *self.extra), graphs),
            **dict.fromkeys(("x", "node_truth"), nodes),
            **dict.fromkeys(("reverse", "edge_attr", "edge_truth"), edges),
        }
        named = {name.removeprefix("extra."): value for name, value in self.tensors().items() if name != "edge_index"}
        wrong = [name for name, value in named.items() if value.shape[:1] != (lengths[name],)]
        if wrong or self.edge_index.shape != (2, edges):
            name = (wrong or ["edge_index"])[0]
            raise ValueError(f"the counts of nodes and edges do not add up to the tensors' lengths: {name}")

    def __len__(self) -> int:
        return len(self.node_counts)

    @property
    def device(self) -> torch.device:
        """Where the tensors live."""
        return self.x.device

    @property
    def node_offsets(self) -> Tensor:
        """Row of each graph's first node `[G]`, on the host."""
        return self.node_counts.cumsum(0) - self.node_counts

    @property
    def edge_offsets(self) -> Tensor:
        """Row of each graph's first edge `[G]`, on the host."""
        return self.edge_counts.cumsum(0) - self.edge_counts

    def check_edges(self) -> None:
        """Refuse edges to nodes that their graph does not have, naming the graph."""
        whole = (self.edge_index, self.reverse, self.node_counts, self.edge_counts)
        if any(values.is_floating_point() for values in whole) or min(int(c.min()) for c in whole[2:] if len(c)) < 0:
            raise OutlandError("edges and counts must be whole numbers, and counts from 0 on")
        first_graph = 0
        for rows, nodes, edges in edge_blocks(self.node_counts, self.edge_counts):
            graph = torch.arange(len(edges)).repeat_interleave(edges).to(self.device)
            for ends, most in ((self.edge_index[:, rows], nodes), (self.reverse[None, rows], edges)):
                bad = ((ends < 0) | (ends >= most.to(self.device)[graph])).any(0)
                if bad.any():
                    where = first_graph + int(graph[bad][0])
                    raise OutlandError(f"graph {where} has an edge to a node or an edge that it does not have")
            first_graph += len(edges)

    @cached_property
    def edge_order(self) -> tuple[bool, bool]:
        """Whether all edges stand in the order of their sources, and whether each has its other direction."""
        is_sorted = is_symmetric = True
        for rows, _, edges in edge_blocks(self.node_counts, self.edge_counts):
            source, target = self.edge_index[:, rows].long()
            starts = starts_by_edge(edges, edges).to(self.device)
            back = self.reverse[rows].long() + starts
            is_sorted = is_sorted and not bool(((source[1:] < source[:-1]) & (starts[1:] == starts[:-1])).any())
            is_symmetric = is_symmetric and torch.equal(source[back], target) and torch.equal(target[back], source)
        return is_sorted, is_symmetric

    @cached_property
    def out_degrees(self) -> Tensor:
        """How many edges leave each node `[N]`."""
        blocks = [torch.zeros(0, dtype=torch.uint8, device=self.device)]
        for rows, nodes, edges in edge_blocks(self.node_counts, self.edge_counts):
            source = self.edge_index[0, rows].long() + starts_by_edge(nodes, edges).to(self.device)
            blocks.append(to_smallest_int(torch.bincount(source, minlength=int(nodes.sum()))))
        return torch.cat(blocks)

    def to(self, device: torch.device | str) -> "PackedGraphs":
        """Copy to a device, the counts excepted."""
        moved: dict[str, Any] = {name: value.to(device) for name, value in self.tensors().items() if "." not in name}
        moved |= {"node_counts": self.node_counts, "edge_counts": self.edge_counts}
        return replace(self, **moved, extra={name: value.to(device) for name, value in self.extra.items()})

    def select(self, index: Tensor) -> "PackedGraphs":
        """The graphs at `index`, in its order."""
        index = index.cpu()
        nodes = rows_of_graphs(index, self.node_counts, self.node_offsets).to(self.device)
        edges = rows_of_graphs(index, self.edge_counts, self.edge_offsets).to(self.device)
        graphs = index.to(self.device)
        rows = {
            **dict.fromkeys(("x", "node_truth"), nodes),
            **dict.fromkeys(("edge_attr", "edge_truth", "reverse"), edges),
            **dict.fromkeys(("y", "environment"), graphs),
        }
        picked: dict[str, Any] = {
            name: None if getattr(self, name) is None else getattr(self, name)[row] for name, row in rows.items()
        }
        return PackedGraphs(
            **picked,
            edge_index=self.edge_index[:, edges],
            node_counts=self.node_counts[index],
            edge_counts=self.edge_counts[index],
            extra={name: value[graphs] for name, value in self.extra.items()},
        )

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name, those of `extra` as `extra.NAME`: what is saved."""
        named = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "extra"}
        named |= {f"extra.{name}": value for name, value in self.extra.items()}
        return {name: value for name, value in named.items() if value is not None}

    @classmethod
    def from_tensors(cls, named: Mapping[str, Tensor]) -> "PackedGraphs":
        """The inverse of `tensors`."""
        fields: dict[str, Any] = {name: value for name, value in named.items() if "." not in name}
        extra = {name.removeprefix("extra."): value for name, value in named.items() if "." in name}
        return cls(**fields, extra=extra)

    @classmethod
    def from_data_list(cls, graphs: Sequence["Data"]) -> "PackedGraphs":
        """Pack PyG `Data` objects; `x`, `edge_index` and `y` are needed, `edge_attr` and `environment` taken along."""
        if hasattr(graphs, "edge_index"):
            raise OutlandError("this is one graph; give a list of them")
        graphs = list(graphs)
        if not graphs:
            raise OutlandError("there are no graphs to pack")
        for position, graph in enumerate(graphs):
            _check_graph(graph, f"graph {position}")
            if _column(graph.x).shape[1] != _column(graphs[0].x).shape[1]:
                raise OutlandError(
                    f"graph {position} has {_column(graph.x).shape[1]} node features, graph 0 has others"
                )
        node_counts = torch.tensor([len(graph.x) for graph in graphs])
        edge_counts = torch.tensor([graph.edge_index.shape[1] for graph in graphs])
        edge_index = torch.cat([graph.edge_index for graph in graphs], dim=1)
        optional: dict[str, Any] = {
            name: _joined(graphs, name) for name in ("edge_attr", "environment", "node_truth", "edge_truth")
        }
        if optional["environment"] is not None:
            optional["environment"] = optional["environment"].reshape(len(graphs)).long()
        return cls(
            x=_single(torch.cat([_column(graph.x) for graph in graphs])),
            edge_index=to_smallest_int(edge_index),
            node_counts=node_counts,
            edge_counts=edge_counts,
            y=_labels(graphs),
            reverse=to_smallest_int(reverse_edges(edge_index, node_counts, edge_counts)),
            **optional,
        )

    @classmethod
    def concatenate(cls, sets: Sequence["PackedGraphs"]) -> "PackedGraphs":
        """Several sets as one, in order; they have the same fields."""
        named = [graphs.tensors() for graphs in sets]
        return cls.from_tensors(
            {name: torch.cat([each[name] for each in named], -1 if name == "edge_index" else 0) for name in named[0]}
        )

    def to_data_list(self) -> list["Data"]:
        """Unpack into PyG `Data` objects, with every field that is here."""
        from torch_geometric.data import Data

        nodes, edges = self.node_counts.tolist(), self.edge_counts.tolist()
        per_graph: dict[str, Sequence[Tensor]] = {
            "x": self.x.split(nodes),
            "edge_index": self.edge_index.long().split(edges, dim=1),
            "y": self.y.split(1),
        }
        for name, sizes in (("node_truth", nodes), ("edge_truth", edges), ("edge_attr", edges)):
            if getattr(self, name) is not None:
                per_graph[name] = getattr(self, name).split(sizes)
        if self.environment is not None:
            per_graph["environment"] = self.environment.split(1)
        per_graph |= {name: value.split(1) for name, value in self.extra.items()}
        return [Data(**{name: parts[i] for name, parts in per_graph.items()}) for i in range(len(self))]


def _check_graph(graph: "Data", name: str) -> None:
    """Refuse a graph that cannot be packed, in a sentence that names it."""
    for field_name in ("x", "edge_index", "y"):
        if getattr(graph, field_name, None) is None:
            raise OutlandError(f"{name} has no {field_name}")
    edges = graph.edge_index
    if not isinstance(graph.x, Tensor) or graph.x.dim() not in (1, 2):
        raise OutlandError(f"{name}: x must be a tensor with one row a node")
    if not isinstance(edges, Tensor) or edges.dim() != 2 or len(edges) != 2 or edges.is_floating_point():
        raise OutlandError(f"{name}: edge_index must be a tensor of whole numbers with two rows, [2, edges]")
    if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < len(graph.x):
        raise OutlandError(f"{name} has an edge to a node it does not have")
    if getattr(graph, "edge_attr", None) is not None and len(graph.edge_attr) != edges.shape[1]:
        raise OutlandError(f"{name} has {edges.shape[1]} edges and features for {len(graph.edge_attr)}")


def _single(values: Tensor) -> Tensor:
    """Real numbers in single precision, as the networks have them."""
    return values.float() if values.is_floating_point() else values


def _column(values: Tensor) -> Tensor:
    return values[:, None] if values.dim() == 1 else values


def _joined(graphs: Sequence["Data"], name: str) -> Tensor | None:
    have = [getattr(graph, name, None) is not None for graph in graphs]
    if not any(have):
        return None
    if not all(have):
        raise OutlandError(f"graph {have.index(False)} has no {name}, though others do")
    parts = [torch.as_tensor(getattr(graph, name)) for graph in graphs]
    if name == "edge_attr":
        parts = [_column(part) for part in parts]
    return torch.cat([part.reshape(1) if part.dim() == 0 else part for part in parts])


def _labels(graphs: Sequence["Data"]) -> Tensor:
    rows = [torch.as_tensor(graph.y).reshape(-1) for graph in graphs]
    for position, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise OutlandError(f"graph {position} has {len(row)} labels, graph 0 has {len(rows[0])}")
    labels = torch.stack(rows)
    if labels.is_floating_point() or labels.shape[1] > 1:
        return labels.float()
    return labels.long().squeeze(1)
