"""Graphs without some of their nodes, or without some of their edges."""

import torch

from outland.graphs.induced import induced_subgraphs, spanning_subgraphs


def test_nodes_go_with_their_edges(any_set):
    _, graphs = any_set
    keep = torch.rand(len(graphs.x), generator=torch.Generator().manual_seed(1)) > 0.4
    assert 0 < int(keep.sum()) < len(keep)
    smaller = induced_subgraphs(graphs, keep)
    smaller.check_edges()
    rows = zip(graphs.to_data_list(), smaller.to_data_list(), keep.split(graphs.node_counts.tolist()), strict=True)
    for data, rest, kept in rows:
        both = kept[data.edge_index].all(0)
        number = kept.long().cumsum(0) - 1
        assert torch.equal(rest.x, data.x[kept])
        assert torch.equal(rest.edge_index, number[data.edge_index[:, both]])
        assert data.edge_attr is None or torch.equal(rest.edge_attr, data.edge_attr[both])
    starts = smaller.edge_offsets.repeat_interleave(smaller.edge_counts)
    back = smaller.reverse.long() + starts
    assert torch.equal(back[back], torch.arange(len(back)))


def test_all_or_none(any_set):
    _, graphs = any_set
    every = torch.ones(len(graphs.x), dtype=torch.bool)
    same, empty = induced_subgraphs(graphs, every), induced_subgraphs(graphs, ~every)
    for name in ("x", "edge_index", "reverse", "node_counts", "edge_counts"):
        assert torch.equal(getattr(same, name), getattr(graphs, name))
    assert (len(empty), len(empty.x), empty.edge_index.shape) == (len(graphs), 0, (2, 0))


def test_edges_go_and_nodes_stay(any_set):
    _, graphs = any_set
    partner = graphs.reverse.long() + graphs.edge_offsets.repeat_interleave(graphs.edge_counts)
    keep = torch.rand(len(partner), generator=torch.Generator().manual_seed(1)) > 0.5
    keep &= keep[partner]
    assert 0 < int(keep.sum()) < len(keep)
    smaller = spanning_subgraphs(graphs, keep)
    smaller.check_edges()
    rows = zip(graphs.to_data_list(), smaller.to_data_list(), keep.split(graphs.edge_counts.tolist()), strict=True)
    for data, rest, kept in rows:
        assert torch.equal(rest.x, data.x)
        assert torch.equal(rest.edge_index, data.edge_index[:, kept])
        assert data.edge_attr is None or torch.equal(rest.edge_attr, data.edge_attr[kept])
    back = smaller.reverse.long() + smaller.edge_offsets.repeat_interleave(smaller.edge_counts)
    assert torch.equal(partner[keep], torch.arange(len(keep))[keep][back])
    assert spanning_subgraphs(graphs, torch.zeros_like(keep)).edge_index.shape == (2, 0)
