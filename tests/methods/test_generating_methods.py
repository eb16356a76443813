"""G-Mixup, which draws graphs from mixed graphons, and EERM, whose editors make environments out of graphs."""

import itertools
import math

import pytest
import torch
from torch_geometric.data import Data

from outland.errors import OutlandError
from outland.graphs import Features, PackedGraphs, Schema, Splits, Task
from outland.graphs.gather import Gatherer, Shape
from outland.methods import Progress, build_method, find_method, method_settings
from outland.methods.parts.graphons import (
    Graphon,
    class_labels,
    degrees,
    fit_graphon,
    join,
    mixed_graphs,
    sample_graphs,
    usvt,
)
from outland.methods.parts.risk import label_losses
from outland.training import Trainer
from outland.training.stepper import Stepper
from tests.cases import FRAME, SMALL, MethodCase, doubled
from tests.conftest import CHEMICAL, REAL, chemical_graphs, odd_graphs, undirected, whole

PLAIN = Features(1)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


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


def same_graphs(one, other):
    return all(torch.equal(one.tensors()[name], value) for name, value in other.tensors().items())


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
        for place in range(20):
            assert torch.equal(dense(made, place), aligned)
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
            for place, node in enumerate(order):
                row = graph.x[node]
                if schema.node.vocabulary:
                    hot = [torch.nn.functional.one_hot(v, k) for v, k in zip(row, (5, 3), strict=True)]
                    row = torch.cat(hot)
                nodes[place].append(row.double())
                reached[place] += 1
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
        one, other = constant(0.9, 30, (1.0, 0.0), 2.0), constant(0.1, 30, (0.0, 1.0), 4.0)
        made = sample_graphs(one, other, share, 50, PLAIN, seeded())
        assert made.edge_counts.double().mean().item() / (30 * 29) == pytest.approx(density, abs=0.01)
        assert made.x.unique().tolist() == pytest.approx([feature])
        assert torch.equal(made.y, torch.tensor([share, 1 - share]).repeat(50, 1))

    def test_samples_are_sound_graphs(self):
        """As many features as nodes, no self-loop, no lone node, both directions with the same features."""
        graphs = PackedGraphs.from_data_list(chemical_graphs())
        one = fit_graphon(graphs.select(torch.tensor([0, 3])), torch.ones(2), 4, 0.2, CHEMICAL.node)
        other = fit_graphon(graphs.select(torch.tensor([1, 2, 4, 5])), torch.zeros(2), 4, 0.2, CHEMICAL.node)
        made = mixed_graphs([one, other], 47, 10, 0.9, CHEMICAL.node, seeded())
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
        one = Graphon(torch.ones(6, 6).double(), torch.tensor([[0.25, 0.75]] * 6), torch.ones(1), torch.tensor([[0]]))
        other = Graphon(torch.ones(6, 6).double(), torch.tensor([[1.0, 0.0]] * 6), torch.ones(1), torch.tensor([[1]]))
        made = sample_graphs(one, other, 0.6, 1000, Features(1, (2,)), seeded())
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
        one = Graphon(torch.zeros(4, 4).double(), torch.zeros(4, 1), torch.ones(1), torch.zeros(0, 1, dtype=torch.long))
        other = Graphon(torch.ones(4, 4).double(), torch.zeros(4, 1), torch.ones(1), torch.tensor([[3]]))
        for pair in ((one, other), (other, one)):
            assert sample_graphs(*pair, 0.5, 10, PLAIN, seeded()).edge_attr.unique().tolist() == [3]

    def test_one_seed_decides_everything_and_no_other_stream_is_touched(self):
        before = torch.get_rng_state()
        groups = [constant(0.4, 8), constant(0.6, 8, (0.0, 1.0))]
        one, other, third = (mixed_graphs(groups, 12, 10, 0.2, PLAIN, seeded(seed)) for seed in (3, 3, 4))
        assert same_graphs(one, other)
        assert not torch.equal(one.node_counts, third.node_counts) or not torch.equal(one.y, third.y)
        assert torch.equal(torch.get_rng_state(), before)
        assert (one.y.min(1).values >= 0.1 - 1e-6).all()  # shares lie between 0.1 and 0.2
        assert (one.y.min(1).values <= 0.2 + 1e-6).all()
        assert torch.allclose(one.y.sum(1), torch.ones(12))

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
        more = Gatherer(graphs).padded(torch.tensor([4, 0, 2]), Shape(3, 30, 40))
        joint = join(whole(graphs, layout), more)
        plain = whole(graphs.select(torch.tensor([0, 1, 2, 3, 4, 5, 4, 0, 2])))
        logits = erm(doubled(joint))  # in training mode: batch norm must see the real rows of both
        assert torch.allclose(logits[joint.graph_mask], erm(doubled(plain)), atol=1e-9)
        assert joint.graph_mask.sum() == 9
        real = joint.edge_mask.nonzero().flatten()
        assert torch.equal(joint.edge_index[:, joint.reverse[real]], joint.edge_index[:, joint.reverse][:, real])
        assert torch.equal(joint.reverse[joint.reverse], torch.arange(joint.num_edges))


class TestGMixup(MethodCase):
    name = "g-mixup"
    zero = {"ratio": 0}
    still = {"ratio": 0.5}  # as many synthetic graphs as half the real ones, whatever the padding

    def test_ratio_zero_prepares_nothing_and_draws_nothing(self, any_set):
        schema, graphs = any_set
        method, stepper = self.ready(schema, graphs, ratio=0)
        assert method.synthetic is None
        state = method.random.get_state()
        assert set(stepper.step(doubled(whole(graphs)), Progress())) == {"risk.risk"}
        assert torch.equal(method.random.get_state(), state)

    def test_only_training_graphs_are_looked_at(self, any_set):
        schema, graphs = any_set
        train = torch.tensor([0, 1, 3, 4, 5])
        method = self.build(schema, ratio=3.0)
        method.prepare(graphs, train, 7)
        first = method.synthetic.graphs
        data = graphs.to_data_list()
        data[2] = Data(**{**data[4].to_dict(), "y": data[5].y})
        method.prepare(PackedGraphs.from_data_list(data), train, 7)
        assert same_graphs(first, method.synthetic.graphs)
        assert len(first) == 15
        method.prepare(graphs, torch.arange(6), 7)
        assert len(method.synthetic.graphs) == 18

    def test_objective_is_the_mean_over_both_in_proportion(self, any_set):
        """With one synthetic graph for each original it is the plain mean over all of them."""
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs, ratio=1.0)
        batch = doubled(whole(graphs))
        method.reseed(5, torch.device("cpu"))
        terms = method.loss(batch, Progress())
        method.reseed(5, torch.device("cpu"))
        more = method.draw(method.synthetic, batch)
        logits = method.classifier(join(batch, more))
        losses, known = label_losses(logits[:6], batch, schema.task)
        if schema.task.kind == "multiclass":
            soft = -(more.y.double() * logits[6:].log_softmax(1)).sum(1)
            expected = (losses.sum() + soft.sum()) / 12
        else:
            p, y = logits[6:].sigmoid(), more.y.double()
            assert not y.isnan().any()
            soft = -(y * p.log() + (1 - y) * (1 - p).log())
            expected = (losses.sum() / known.sum() + soft.mean()) / 2
        assert sum(terms.values()).item() == pytest.approx(expected.item(), abs=1e-9)

    def test_draws_follow_the_ratio_and_reach_every_synthetic_graph(self, any_set):
        schema, graphs = any_set
        for ratio, count in ((0.15, 1), (0.5, 3), (2.0, 12)):
            method, _ = self.ready(schema, graphs, ratio=ratio)
            seen = [method.draw(method.synthetic, whole(graphs)) for _ in range(40)]
            assert all(batch.num_graphs == count for batch in seen)
            assert len({len(batch.x) for batch in seen}) == 1
            found = torch.cat([batch.index for batch in seen]).unique()
            assert len(found) == len(method.synthetic.graphs) == max(1, round(ratio * 6))

    def test_one_class_leaves_erm(self, any_set):
        schema, graphs = any_set
        method = self.build(schema)
        alike = torch.tensor([0, 0, 3]) if schema.task.kind == "multiclass" else torch.tensor([0, 2])
        method.prepare(graphs, alike, 0)
        assert method.synthetic is None

    def test_regression_mixes_the_means_of_its_halves(self):
        data = odd_graphs()
        for place, graph in enumerate(data):
            graph.y = torch.tensor([[float(place), math.nan if place else 8.0]])
        schema = Schema(Features(3), Task("regression", 2, "rmse"))
        graphs = PackedGraphs.from_data_list(data)
        method, stepper = self.ready(schema, graphs, ratio=2.0)
        made = method.synthetic.graphs.y
        assert ((made[:, 0] - 2.5).abs() >= 0.9).all()  # halves mean 1 and 4, mixed 0.1 to 0.2 with the other
        assert ((made[:, 0] - 2.5).abs() <= 1.2 + 1e-6).all()
        assert made[:, 1].isnan().all()  # the upper half has no second number, so no mixture has
        assert all(value.isfinite() for value in stepper.step(doubled(whole(graphs)), Progress()).values())
        index = torch.arange(6)
        splits = Splits(graphs, {"train": index, "val": index, "test": index}, schema)
        trainer = Trainer(build_method(self.name, schema, SMALL, method_settings(self.name, {})), splits, FRAME, 0)
        trainer.fit()
        assert len(trainer.curves) == 2

    def test_degrees_are_taken_anew_where_they_are_the_only_feature(self, motif):
        graphs = motif.graphs.select(motif["train"][:: len(motif["train"]) // 30])
        features = Features(1, (40,))
        schema = Schema(features, motif.schema.task)
        known = PackedGraphs.from_tensors({**graphs.tensors(), "x": degrees(graphs, features)})
        method, _ = self.ready(schema, known, ratio=1.0)
        made = method.synthetic.graphs
        assert torch.equal(made.x, degrees(made, features))
        method, _ = self.ready(motif.schema, graphs, ratio=1.0)
        assert (method.synthetic.graphs.x == 1).all()

    def test_presets_are_the_two_published_ranges(self):
        assert method_settings("g-mixup:paper", {}).share == 0.2
        assert method_settings("g-mixup:released", {}).share == 0.01
        with pytest.raises(OutlandError, match=r"method\.share must be from 0 to 1"):
            method_settings("g-mixup", {"share": 1.5})


def by_content(method, batch, chances):
    """Edits that depend on the real edges alone, in place of random ones."""
    place = torch.arange(len(chances))
    kept = torch.minimum(place, batch.reverse)
    return (kept[:, None] * 7 + torch.arange(chances.shape[1]) * 3) % 5 < 2


class TestEERM(MethodCase):
    name = "eerm"
    zero = {"strength": 0, "beta": 1}
    one_pass = False

    def test_padding_changes_neither_losses_nor_gradients(self, any_set, monkeypatch):
        """With edits that do not depend on how many rows there are to draw for."""
        monkeypatch.setattr("outland.methods.eerm.EERM.edits", by_content)
        super().test_padding_changes_neither_losses_nor_gradients(any_set)

    def test_no_edits_is_beta_times_erm_without_variance(self, any_set):
        schema, graphs = any_set
        method, stepper = self.ready(schema, graphs, strength=0, beta=2.5)
        batch = doubled(whole(graphs))
        terms = stepper.backward(stepper.optimizers[0], batch, Progress())
        assert terms["variance"].item() == 0
        ours = [p.grad.clone() for p in method.classifier.parameters() if p.grad is not None]
        risk = method.risk(method.classifier(batch), batch)
        used = [p for p in method.classifier.parameters() if p.grad is not None]
        theirs = torch.autograd.grad(risk, used, allow_unused=True)
        assert terms["risk"].item() == pytest.approx(2.5 * risk.item(), abs=1e-9)
        for one, other in zip(ours, theirs, strict=True):
            assert torch.allclose(one, torch.zeros_like(one) if other is None else 2.5 * other, atol=1e-9)
        assert stepper.backward(stepper.optimizers[1], batch, Progress())["editors"].item() == 0

    def test_one_editor_has_no_variance(self, any_set):
        schema, graphs = any_set
        _, stepper = self.ready(schema, graphs, editors=1)
        log = stepper.step(doubled(whole(graphs)), Progress())
        assert log["classifier.variance"].item() == 0
        assert log["editors.editors"].item() == 0
        assert log["classifier.risk"].isfinite()

    @pytest.mark.parametrize("strength", [0.3, 1.0])
    def test_edges_fall_as_often_as_the_score_function_says(self, any_set, strength):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs, strength=strength)
        method.eval()
        batch = doubled(whole(graphs))
        chances = method.chances(batch).detach()
        assert chances.max() <= strength
        assert torch.equal(chances, batch.reversed(chances))
        edits = torch.stack([method.edits(batch, chances) for _ in range(4000)])
        assert torch.equal(edits, edits[:, batch.reverse])
        deviation = (chances * (1 - chances) / 4000).sqrt()
        assert ((edits.double().mean(0) - chances).abs() < 5 * deviation).all()

    def test_likelihood_equals_a_plain_loop_and_sums_to_one(self, any_set):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs, strength=0.8)
        method.eval()
        batch = doubled(whole(graphs))
        chances = method.chances(batch).detach()
        dropped = method.edits(batch, chances)
        expected = torch.zeros(6, 3).double()
        for edge in range(batch.num_edges):
            if edge <= batch.reverse[edge]:
                for k in range(3):
                    p = chances[edge, k]
                    expected[batch.edge_batch[edge], k] += (p if dropped[edge, k] else 1 - p).log()
        assert torch.allclose(method.log_likelihood(batch, chances, dropped), expected, atol=1e-9)
        pair = doubled(whole(graphs.select(torch.tensor([5]))))  # one undirected edge: dropped, or not
        chances = method.chances(pair).detach()
        both = [method.log_likelihood(pair, chances, torch.full_like(chances, v).bool()).exp() for v in (0.0, 1.0)]
        assert torch.allclose(both[0] + both[1], torch.ones(1, 3).double(), atol=1e-9)

    def test_rewards_equal_a_plain_loop(self):
        losses = torch.rand(4, 2, 3, generator=seeded()).double()
        known = torch.tensor([[True, True], [True, False], [False, False], [False, True]])
        losses = torch.where(known[:, :, None], losses, 0)
        reward, counts = find_method("eerm").rewards(losses, known)
        assert counts.tolist() == [True, True, False, True]
        for graph in range(4):
            own = losses[graph][known[graph]]
            expected = own.mean(0).var().item() if len(own) else 0.0
            assert reward[graph].item() == pytest.approx(expected, abs=1e-9)

    def test_editors_climb_the_expected_variance(self, monkeypatch):
        """REINFORCE's expected gradient is that of the expected reward, both over all edits there can be.

        The baseline of two like graphs holds half of the graph's own reward, so half of the gradient is left.
        """
        graphs = PackedGraphs.from_data_list(odd_graphs()).select(torch.tensor([5, 5]))
        method = self.build(REAL, strength=0.9, editors=2)
        method.eval()
        both, one = doubled(whole(graphs)), doubled(whole(graphs.select(torch.tensor([0]))))
        moves = [method.editor.last.bias, method.editor.last.weight, method.editor.first.weight]
        expected, found = torch.zeros((), dtype=torch.double), torch.zeros((), dtype=torch.double)
        for edit in itertools.product((False, True), repeat=2):
            dropped = torch.tensor([edit, edit])  # an edge in both directions
            reward, _ = method.rewards(*method.losses(one, dropped))
            chance = method.log_likelihood(one, method.chances(one), dropped).sum().exp()
            expected = expected + chance * reward.sum().detach()
        for edit in itertools.product((False, True), repeat=4):
            dropped = torch.tensor([edit[:2], edit[2:]]).repeat_interleave(2, dim=0)
            chance = method.log_likelihood(both, method.chances(both), dropped).sum().exp().detach()
            monkeypatch.setattr(method, "edits", lambda batch, chances, dropped=dropped: dropped)
            found = found - chance * method.editor_loss(both, Progress())["editors"]
        slopes, ours = torch.autograd.grad(expected, moves), torch.autograd.grad(found, moves)
        for slope, mine in zip(slopes, ours, strict=True):
            assert slope.abs().max() > 0
            assert torch.allclose(mine / slope.abs().max(), slope / 2 / slope.abs().max(), atol=1e-6)

    def test_variance_moves_the_classifier_and_not_the_editors(self, any_set):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs)
        variance = method.classifier_loss(doubled(whole(graphs)), Progress())["variance"]
        assert variance.item() > 0
        classifier, editor = list(method.classifier.parameters()), list(method.editor.parameters())
        slopes = torch.autograd.grad(variance, classifier + editor, allow_unused=True)
        assert any(slope is not None and slope.abs().max() > 0 for slope in slopes[: len(classifier)])
        assert all(slope is None for slope in slopes[len(classifier) :])

    def test_variance_is_that_of_the_views_risks(self, any_set):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs, beta=0.5)
        method.eval()
        batch = doubled(whole(graphs))
        method.reseed(3, torch.device("cpu"))
        terms = method.classifier_loss(batch, Progress())
        method.reseed(3, torch.device("cpu"))
        dropped = method.edits(batch, method.chances(batch))
        risks = []
        for k in range(3):
            kept = ~dropped[:, k]
            thin = graphs_without(graphs, kept)
            risks.append(method.risk(method.classifier(doubled(whole(thin))), doubled(whole(thin))))
        assert terms["variance"].item() == pytest.approx(torch.stack(risks).var().item(), abs=1e-9)
        assert terms["risk"].item() == pytest.approx(0.5 * torch.stack(risks).mean().item(), abs=1e-9)

    def test_inference_does_without_the_editors(self, any_set):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs)
        counts = method.parameter_counts()
        assert counts["inference"] == counts["classifier"] == counts["total"] - counts["editor"]
        method.eval()
        batch = doubled(whole(graphs))
        assert torch.equal(method(batch), method.classifier(batch))


def graphs_without(graphs, kept):
    """The set with only the edges that are kept."""
    data = graphs.to_data_list()
    for graph, own in zip(data, kept.split(graphs.edge_counts.tolist()), strict=True):
        graph.edge_index = graph.edge_index[:, own]
        if graph.edge_attr is not None:
            graph.edge_attr = graph.edge_attr[own]
    return PackedGraphs.from_data_list(data)


def test_backbones_all_serve_both():
    graphs = PackedGraphs.from_data_list(odd_graphs())
    for name in ("g-mixup", "eerm"):
        for kind in ("gcn", "gcnii", "gat"):
            backbone = type(SMALL)(kind=kind, width=8, heads=2, layers=2, virtual_node=True)
            method = build_method(name, REAL, backbone, method_settings(name, {})).double()
            method.prepare(graphs, torch.arange(6), 0)
            log = Stepper(method, FRAME).step(doubled(whole(graphs)), Progress())
            assert all(value.isfinite() for value in log.values())
