"""Cuts batches out of a set of graphs."""

from collections.abc import Iterator

import torch
from torch import Tensor

from outland import ops
from outland.graphs.batch import GraphBatch
from outland.graphs.packed import PackedGraphs
from outland.ops import BatchShape, CollateSource


class Gatherer:
    """Cuts batches out of a set of graphs by index, on the device the set lives on."""

    def __init__(self, graphs: PackedGraphs) -> None:
        self.graphs = graphs
        self.source = CollateSource(
            x=graphs.x,
            edge_index=graphs.edge_index,
            reverse=graphs.reverse,
            edge_attr=graphs.edge_attr,
            y=graphs.y,
            environment=graphs.environment,
            node_counts=graphs.node_counts.to(graphs.device),
            edge_counts=graphs.edge_counts.to(graphs.device),
            node_offsets=graphs.node_offsets.to(graphs.device),
            edge_offsets=graphs.edge_offsets.to(graphs.device),
            out_degrees=graphs.out_degrees,
            in_order=all(graphs.edge_order),
        )

    def exact(self, index: Tensor, nodes: int, edges: int) -> GraphBatch:
        """The graphs at `index` (on the device), which have so many nodes and edges."""
        return GraphBatch(**ops.collate(index, self.source, nodes, edges))

    def exact_each(self, index: Tensor, shapes: list[BatchShape]) -> Iterator[GraphBatch]:
        """The graphs at `index` as exact batches of these shapes, one after another."""
        return (GraphBatch(**fields) for fields in ops.collate_each(index, self.source, shapes))

    def padded(self, index: Tensor, shape: BatchShape) -> GraphBatch:
        """The graphs at `index`, filled up to `shape`, which must leave room for one padding node.

        `index` may have its own padding: an index below 0 is no graph.
        """
        if len(index) < shape.graphs:
            index = torch.cat([index, index.new_full((shape.graphs - len(index),), -1)])
        return GraphBatch(**ops.collate_padded(index, self.source, shape.nodes, shape.edges))
