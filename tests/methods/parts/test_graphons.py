import math

import pytest
import torch
from torch_geometric.data import Data

from outland.graphs import BatchShape, Features, PackedGraphs, Task
from outland.graphs.batches import Gatherer
from outland.methods import build_method, method_settings
from outland.methods.parts.graphons import Graphon, class_labels, fit_graphon, join, mixed_graphs, sample_graphs, usvt
from tests.cases import SMALL, doubled
from tests.conftest import CHEMICAL, REAL, chemical_graphs, odd_graphs, undirected, whole
from tests.methods.cases import same_graphs, seeded

PLAIN = Features(1)


def packed(adjacency, copies=1):
    """The same graph several times, with the node's number as its feature."""
    edges = adjacency.nonzero().T
    data = Data(x=torch.arange(len(adjacency))[:, None].float(), edge_index=edges, y=torch.tensor([0]))
    return PackedGraphs.from_data_list([data] * copies)


def star(n):
    return PackedGraphs.from_data_list(
        [Data(x=torch.ones(n, 1), edge_index=undirected(*((0, i) for i in range(1, n))), y=torch.tensor([0]))]
    )


def dense(graphs, place=0):
    data = graphs.to_data_list()[place]
    adjacency = torch.zeros(len(data.x), len(data.x)).double()
    adjacency[data.edge_index[0], data.edge_index[1]] = 1
    return adjacency


def constant(chance, n, label=(1.0, 0.0), feature=0.0):
    full = torch.full((n, n), chance).double()
    return Graphon(full, torch.full((n, 1), feature).double(), torch.tensor(label).double())


class TestGraphons:
    def test_golden_star(self):
        adjacency = dense(star(3))
        values = torch.linalg.svdvals(adjacency)
        assert values.tolist() == pytest.approx([math.sqrt(2), math.sqrt(2), 0], abs=1e-9)
        assert torch.allclose(usvt(adjacency, 0.2), adjacency, atol=1e-9)

    def test_complete_graph_comes_back_and_a_high_threshold_leaves_nothing(self):
        complete = torch.ones(9, 9).double() - torch.eye(9).double()
        assert torch.allclose(usvt(complete, 0.2), complete, atol=1e-9)
        assert usvt(complete, 100.0).abs().max() == 0

    def test_small_singular_values_go(self):
        # values 8 and eight times 1; between them only the rank-one part is left: 8/9 everywhere
        complete = torch.ones(9, 9).double() - torch.eye(9).double()
        assert torch.allclose(usvt(complete, 0.5), torch.full((9, 9), 8 / 9).double(), atol=1e-9)

    def test_identical_graphs_at_threshold_zero_are_drawn_again(self):
        adjacency = torch.zeros(5, 5)
        for u, v in ((0, 3), (1, 3), (2, 3), (2, 4), (3, 4)):
            adjacency[u, v] = adjacency[v, u] = 1
        graphs = packed(adjacency, copies=4)
        graphon = fit_graphon(graphs, torch.ones(2), 5, 0.0, PLAIN)
        order = torch.tensor([3, 2, 4, 0, 1])  # degrees 4, 2, 2, 1, 1; ties in node order
        aligned = adjacency.double()[order][:, order]
        assert torch.allclose(graphon.edges, aligned, atol=1e-9)
        assert graphon.nodes.flatten().tolist() == order.tolist()
        made = sample_graphs(graphon, graphon, 0.3, 20, PLAIN, seeded())
        for index in range(20):
            assert torch.equal(dense(made, index), aligned)
        assert made.x.flatten().tolist() == order.tolist() * 20

    @pytest.mark.parametrize("threshold", [0.0, 0.05, 0.2])
    def test_symmetric_and_between_zero_and_one(self, motif, threshold):
        graphon = fit_graphon(motif.graphs.select(motif["train"][:50]), torch.ones(3), 17, threshold, PLAIN)
        assert torch.equal(graphon.edges, graphon.edges.T)
        assert graphon.edges.min() >= 0
        assert graphon.edges.max() <= 1
        assert graphon.edges.max() > 0.1

    def test_order_of_nodes_does_not_matter_where_degrees_tell_them_apart(self):
        """No simple graph has all degrees distinct; in this one only twins, which look the same, share theirs."""
        n = 7
        adjacency = (torch.arange(n)[:, None] + torch.arange(n) >= n).float()
        adjacency.fill_diagonal_(0)
        first = fit_graphon(packed(adjacency), torch.ones(2), n, 0.2, PLAIN)
        for seed in range(5):
            order = torch.randperm(n, generator=seeded(seed))
            again = fit_graphon(packed(adjacency[order][:, order]), torch.ones(2), n, 0.2, PLAIN)
            assert torch.allclose(first.edges, again.edges, atol=1e-12)

    @pytest.mark.parametrize("size", [2, 4, 7])
    @pytest.mark.parametrize(("schema", "make"), [(REAL, odd_graphs), (CHEMICAL, chemical_graphs)])
    def test_equals_a_plain_loop(self, schema, make, size):
        graphs = make()
        mean, nodes, reached = torch.zeros(size, size).double(), [[] for _ in range(size)], torch.zeros(size)
        for graph in graphs:
            n = len(graph.x)
            adjacency = torch.zeros(n, n).double()
            for u, v in graph.edge_index.T.tolist():
                if u != v:
                    adjacency[u, v] = adjacency[v, u] = 1
            order = sorted(range(n), key=lambda u: -adjacency[u].sum().item())[:size]
            mean[: len(order), : len(order)] += adjacency[order][:, order] / len(graphs)
            for index, node in enumerate(order):
                row = graph.x[node]
                if schema.node.vocabulary:
                    hot = [torch.nn.functional.one_hot(v, k) for v, k in zip(row, (5, 3), strict=True)]
                    row = torch.cat(hot)
                nodes[index].append(row.double())
                reached[index] += 1
        everything = torch.stack([row for rows in nodes for row in rows]).mean(0)
        expected = torch.stack([torch.stack(rows).mean(0) if rows else everything for rows in nodes])
        graphon = fit_graphon(PackedGraphs.from_data_list(graphs), torch.ones(1), size, 0.0, schema.node)
        assert torch.allclose(graphon.edges, mean, atol=1e-9)
        assert torch.allclose(graphon.nodes, expected, atol=1e-9)
        assert size < 7 or reached[6] == 0

    def test_density_is_the_mean_of_the_graphon(self):
        chances = torch.rand(20, 20, generator=seeded()).double() * 0.6 + 0.2
        graphon = Graphon((chances + chances.T) / 2, torch.zeros(20, 1).double(), torch.ones(1).double())
        made = sample_graphs(graphon, graphon, 0.5, 400, PLAIN, seeded())
        pairs = graphon.edges[torch.triu(torch.ones(20, 20), 1).bool()]
        deviation = (pairs * (1 - pairs)).sum().div(400).sqrt().item()
        assert abs(made.edge_counts.double().mean().item() / 2 - pairs.sum().item()) < 4 * deviation

    @pytest.mark.parametrize(("share", "density", "feature"), [(1.0, 0.9, 2.0), (0.0, 0.1, 4.0), (0.25, 0.3, 3.5)])
    def test_share_mixes_edges_features_and_labels_alike(self, share, density, feature):
        first, second = constant(0.9, 30, (1.0, 0.0), 2.0), constant(0.1, 30, (0.0, 1.0), 4.0)
        made = sample_graphs(first, second, share, 50, PLAIN, seeded())
        assert made.edge_counts.double().mean().item() / (30 * 29) == pytest.approx(density, abs=0.01)
        assert made.x.unique().tolist() == pytest.approx([feature])
        assert torch.equal(made.y, torch.tensor([share, 1 - share]).repeat(50, 1))

    def test_samples_are_sound_graphs(self):
        """As many features as nodes, no self-loop, no lone node, both directions with the same features."""
        graphs = PackedGraphs.from_data_list(chemical_graphs())
        first = fit_graphon(graphs.select(torch.tensor([0, 3])), torch.ones(2), 4, 0.2, CHEMICAL.node)
        second = fit_graphon(graphs.select(torch.tensor([1, 2, 4, 5])), torch.zeros(2), 4, 0.2, CHEMICAL.node)
        made = mixed_graphs([first, second], 47, 10, 0.9, CHEMICAL.node, seeded())
        assert len(made) == 47
        assert (made.node_counts >= 2).all()
        again = PackedGraphs.from_data_list(made.to_data_list())
        assert torch.equal(again.reverse.long(), made.reverse.long())
        for graph in made.to_data_list():
            assert len(graph.x) == len(graph.edge_index.unique())
            assert (graph.edge_index[0] != graph.edge_index[1]).all()
            assert graph.edge_index.unique(dim=1).shape == graph.edge_index.shape
        starts = made.edge_offsets.repeat_interleave(made.edge_counts)
        assert (made.reverse.long() + starts != torch.arange(len(starts))).all()
        assert torch.equal(made.edge_attr[made.reverse.long() + starts], made.edge_attr)
        assert set(map(tuple, made.edge_attr.tolist())) <= set(map(tuple, graphs.edge_attr.tolist()))
        for column, kinds in zip(made.x.unbind(1), (5, 3), strict=True):
            assert 0 <= column.min() <= column.max() < kinds

    def test_categories_and_edge_features_follow_their_frequencies(self):
        first = Graphon(torch.ones(6, 6).double(), torch.tensor([[0.25, 0.75]] * 6), torch.ones(1), torch.tensor([[0]]))
        second = Graphon(torch.ones(6, 6).double(), torch.tensor([[1.0, 0.0]] * 6), torch.ones(1), torch.tensor([[1]]))
        made = sample_graphs(first, second, 0.6, 1000, Features(1, (2,)), seeded())
        assert made.x.double().mean().item() == pytest.approx(0.45, abs=0.02)
        assert made.edge_attr.double().mean().item() == pytest.approx(0.4, abs=0.02)

    def test_classes_without_edges_leave_single_nodes(self):
        nothing, something = constant(0.0, 5), constant(1.0, 5)
        made = sample_graphs(nothing, nothing, 0.5, 3, PLAIN, seeded())
        assert made.node_counts.tolist() == [1, 1, 1]
        assert made.edge_counts.tolist() == [0, 0, 0]
        few = sample_graphs(nothing, something, 0.95, 50, PLAIN, seeded())  # empty with chance 0.6: drawn again
        assert (few.edge_counts > 0).all()

    def test_a_class_without_edge_features_lends_the_other_ones(self):
        first = Graphon(
            torch.zeros(4, 4).double(), torch.zeros(4, 1), torch.ones(1), torch.zeros(0, 1, dtype=torch.long)
        )
        second = Graphon(torch.ones(4, 4).double(), torch.zeros(4, 1), torch.ones(1), torch.tensor([[3]]))
        for pair in ((first, second), (second, first)):
            assert sample_graphs(*pair, 0.5, 10, PLAIN, seeded()).edge_attr.unique().tolist() == [3]

    def test_one_seed_decides_everything_and_no_other_stream_is_touched(self):
        before = torch.get_rng_state()
        groups = [constant(0.4, 8), constant(0.6, 8, (0.0, 1.0))]
        first, second, third = (mixed_graphs(groups, 12, 10, 0.2, PLAIN, seeded(seed)) for seed in (3, 3, 4))
        assert same_graphs(first, second)
        assert not torch.equal(first.node_counts, third.node_counts) or not torch.equal(first.y, third.y)
        assert torch.equal(torch.get_rng_state(), before)
        assert (first.y.min(1).values >= 0.1 - 1e-6).all()  # shares lie between 0.1 and 0.2
        assert (first.y.min(1).values <= 0.2 + 1e-6).all()
        assert torch.allclose(first.y.sum(1), torch.ones(12))

    def test_classes_of_every_kind_of_label(self):
        group, label = class_labels(torch.tensor([2, 0]), Task("multiclass", 3, "accuracy"))
        assert group.tolist() == [2, 0]
        assert label.tolist() == [[0, 0, 1], [1, 0, 0]]
        y = torch.tensor([[1.0, 5.0], [math.nan, 2.0], [0.0, 3.0], [4.0, 1.0]])
        group, _ = class_labels(y.clamp(max=1), Task("binary", 2, "rocauc"))
        assert group.tolist() == [1, -1, 0, 1]
        group, label = class_labels(y, Task("regression", 2, "rmse"))
        assert group.tolist() == [0, -1, 0, 1]
        assert torch.equal(label.nan_to_num(9), y.double().nan_to_num(9))

    @pytest.mark.parametrize("layout", ["exact", "padded"])
    def test_joined_batches_are_the_batch_of_all(self, any_set, layout):
        schema, graphs = any_set
        erm = build_method("erm", schema, SMALL, method_settings("erm", {})).double()
        more = Gatherer(graphs).padded(torch.tensor([4, 0, 2]), BatchShape(3, 30, 40))
        joint = join(whole(graphs, layout), more)
        plain = whole(graphs.select(torch.tensor([0, 1, 2, 3, 4, 5, 4, 0, 2])))
        logits = erm(doubled(joint))  # in training mode: batch norm must see the real rows of both
        assert torch.allclose(logits[joint.graph_mask], erm(doubled(plain)), atol=1e-9)
        assert joint.graph_mask.sum() == 9
        real = joint.edge_mask.nonzero().flatten()
        assert torch.equal(joint.edge_index[:, joint.reverse[real]], joint.edge_index[:, joint.reverse][:, real])
        assert torch.equal(joint.reverse[joint.reverse], torch.arange(joint.num_edges))
