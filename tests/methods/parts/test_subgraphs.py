import pytest
import torch
from torch.nn.functional import linear
from torch_geometric.data import Data

from outland.graphs import PackedGraphs
from outland.methods.parts.ranking import top_edges
from outland.methods.parts.subgraphs import EdgeScorer, embed_part, split
from outland.nn import BACKBONES, BackboneSettings, GraphNet, Mask, Readout, frozen_running_stats
from tests.cases import SMALL, doubled
from tests.conftest import REAL, SETS, odd_graphs, undirected, whole
from tests.methods.cases import drawn_scores, some


class TestEdgeScorer:
    @pytest.mark.parametrize("kind", SETS)
    def test_factored_scores_equal_a_loop_over_edges(self, kind):
        schema, batch = some(kind)
        scorer = EdgeScorer(SMALL, schema, hidden=12).double().eval()
        scores, features = scorer(batch)
        scores = scores.squeeze(1)
        assert torch.equal(features, scorer.encoder(batch))
        for index, (u, v) in enumerate(batch.edge_index.T.tolist()):
            ends = [(u, v), (v, u) if batch.reverse[index] != index else (u, v)]
            plain = [
                scorer.last(
                    linear(torch.cat([features[a], features[b]]), scorer.first.weight, scorer.first.bias).relu()
                ).item()
                for a, b in ends
            ]
            assert scores[index].item() == pytest.approx(sum(plain) / 2, abs=1e-12)
        assert torch.equal(scores, scores[batch.reverse])


class TestCut:
    @pytest.mark.parametrize("layout", ["exact", "padded"])
    @pytest.mark.parametrize("ratio", [0.0, 0.4, 1.0])
    def test_parts_share_out_the_edges_and_hold_the_nodes_they_touch(self, ratio, layout):
        _, batch = some(layout=layout)
        scores = drawn_scores(batch)
        kept = top_edges(scores, batch, ratio)
        rationale, complement = split(scores, kept, batch)
        real = torch.ones_like(kept) if batch.edge_mask is None else batch.edge_mask
        assert torch.equal(rationale.edge > 0, kept)
        assert torch.equal((rationale.edge > 0) ^ (complement.edge > 0), real)
        assert torch.allclose(rationale.edge[kept], scores.sigmoid()[kept])
        assert torch.allclose(complement.edge[real & ~kept], 1 - scores.sigmoid()[real & ~kept])
        real_nodes = batch.num_nodes if batch.node_mask is None else int(batch.node_mask.sum())
        for node in range(batch.num_nodes):
            at = real & (batch.edge_index == node).any(0)
            inside = bool((at & kept).any()) or (node < real_nodes and not at.any())
            assert rationale.node[node].item() == inside
            assert complement.node[node].item() == bool((at & ~kept).any())

    def test_everything_kept_is_the_whole_graph_and_its_complement_is_empty(self):
        _, batch = some()
        rationale, complement = split(drawn_scores(batch), top_edges(drawn_scores(batch), batch, 1.0), batch)
        assert (rationale.node == 1).all()
        assert not complement.node.any()
        assert not complement.edge.any()
        net = GraphNet(SMALL, REAL).double()
        assert (embed_part(net, batch, complement) == 0).all()


class TestEmbedPart:
    @pytest.mark.parametrize("pool", ["mean", "sum", "max", "softmax", "attention"])
    @pytest.mark.parametrize("kind", BACKBONES)
    def test_equals_graphs_built_anew_without_the_other_nodes(self, kind, pool):
        """Also in training mode: batch norm sees the nodes of the part and no others."""
        _, batch = some()
        scores = drawn_scores(batch)
        kept = top_edges(scores, batch, 0.3)
        part, _ = split(scores, kept, batch)
        net = GraphNet(BackboneSettings(kind=kind, width=8, heads=2, layers=3, dropout=0.0, pool=pool), REAL).double()
        smaller, weights = [], []
        for graph in range(6):
            nodes = [n for n in range(batch.num_nodes) if batch.node_batch[n] == graph and part.node[n] > 0]
            rows = [e for e in range(batch.num_edges) if batch.edge_batch[e] == graph and kept[e]]
            ends = [[nodes.index(n) for n in batch.edge_index[:, e].tolist()] for e in rows]
            edge_index = torch.tensor(ends, dtype=torch.long).reshape(-1, 2).T
            smaller.append(Data(x=batch.x[nodes], edge_index=edge_index, y=torch.tensor([0])))
            weights += [part.edge[e] for e in rows]
        rebuilt = doubled(whole(PackedGraphs.from_data_list(smaller)))
        order = [
            (batch.x[batch.edge_index[0, e]].tolist(), batch.x[batch.edge_index[1, e]].tolist(), part.edge[e])
            for e in kept.nonzero().flatten()
        ]
        edge = torch.stack(
            [
                next(w for u, v, w in order if u == rebuilt.x[a].tolist() and v == rebuilt.x[b].tolist())
                for a, b in rebuilt.edge_index.T
            ]
        )
        expected = net.embed(rebuilt, Mask(torch.ones(rebuilt.num_nodes).double(), edge))
        assert torch.allclose(embed_part(net, batch, part), expected, atol=1e-9)

    def test_no_edge_weight_removes_every_neighbour(self):
        """P1: a mask that is passed in acts."""
        _, batch = some()
        net = GraphNet(SMALL, REAL).double().eval()
        nothing = Mask(torch.ones(batch.num_nodes).double(), torch.zeros(batch.num_edges).double())
        bare = [Data(x=g.x, edge_index=undirected(), y=g.y) for g in odd_graphs()]
        alone = doubled(whole(PackedGraphs.from_data_list(bare)))
        assert torch.allclose(embed_part(net, batch, nothing), net.embed(alone), atol=1e-12)
        assert not torch.allclose(embed_part(net, batch, nothing), net.embed(batch))

    @pytest.mark.parametrize("virtual", [False, True])
    def test_nodes_outside_a_part_do_not_reach_it(self, virtual):
        _, batch = some()
        part, _ = split(drawn_scores(batch), top_edges(drawn_scores(batch), batch, 0.3), batch)
        net = GraphNet(BackboneSettings(width=8, layers=3, dropout=0.0, virtual_node=virtual), REAL).double()
        outside = part.node == 0
        assert outside.any()
        moved = batch.replace(x=torch.where(outside[:, None], batch.x + 7, batch.x))
        assert torch.allclose(embed_part(net, moved, part), embed_part(net, batch, part), atol=1e-12)

    def test_complements_leave_no_trace_in_batch_norm(self):
        _, batch = some()
        net = GraphNet(SMALL, REAL).double()
        part = Mask.full(batch, 1.0, torch.double)
        before = {name: value.clone() for name, value in net.named_buffers() if "running" in name}
        with frozen_running_stats(net):
            forgotten = embed_part(net, batch, part)
        assert all(torch.equal(value, net.get_buffer(name)) for name, value in before.items())
        assert torch.equal(forgotten, embed_part(net, batch, part))
        assert not any(torch.equal(value, net.get_buffer(name)) for name, value in before.items())

    def test_pooled_rows_are_those_of_the_selected_nodes(self):
        """The public code pools the first rows of the batch instead."""
        _, batch = some()
        features = torch.randn(batch.num_nodes, 4, generator=torch.Generator().manual_seed(1)).double()
        part, _ = split(drawn_scores(batch), top_edges(drawn_scores(batch), batch, 0.3), batch)
        for graph in range(6):
            rows = [n for n in range(batch.num_nodes) if batch.node_batch[n] == graph and part.node[n] > 0]
            for pool, expected in (("mean", features[rows].mean(0)), ("sum", features[rows].sum(0))):
                readout = Readout(BackboneSettings(pool=pool))
                assert torch.allclose(readout(features, batch, part.node, masked=True)[graph], expected)
