"""DIR and CIGA, which cut graphs in two by learned edge scores, and the parts they are made of."""

import math
from typing import Any, ClassVar

import pytest
import torch
from torch.nn.functional import linear
from torch_geometric.data import Data

from outland.errors import OutlandError
from outland.graphs import PackedGraphs, Task
from outland.methods import Progress, build_method, method_settings
from outland.methods.ciga import hinge
from outland.methods.dir import intervened_risks
from outland.methods.parts.contrast import supervised_contrast
from outland.methods.parts.edge_scorer import EdgeScorer
from outland.methods.parts.risk import label_losses
from outland.methods.parts.subgraphs import cut, embed_part, pool_part, top_edges, touched
from outland.nn import BackboneSettings, GraphNet, Mask, statistics_kept
from outland.settings import describe
from tests.cases import SMALL, MethodCase, doubled, statistics
from tests.conftest import REAL, SETS, odd_graphs, undirected, whole

BOTH = pytest.mark.parametrize("name", ["dir", "ciga"])


def numbers(*values, **kinds):
    return torch.tensor(values, dtype=torch.double, **kinds)


def some(kind="real", layout="exact"):
    schema, make = SETS[kind]
    return schema, doubled(whole(PackedGraphs.from_data_list(make()), layout))


def built(name, schema=REAL, backbone=SMALL, **changes):
    torch.manual_seed(0)
    return build_method(name, schema, backbone, method_settings(name, changes)).double()


def drawn_scores(batch, seed=0):
    scores = torch.randn(batch.num_edges, generator=torch.Generator().manual_seed(seed), dtype=torch.double)
    return (scores + batch.reversed(scores)) / 2


def keep_everything(method):
    """Scores so high that every weight of the rationale is exactly 1."""
    method.scorer.forward = lambda batch: (
        torch.full((batch.num_edges, 1), 1e3, dtype=torch.double),
        torch.zeros(batch.num_nodes, SMALL.width, dtype=torch.double),
    )


def gradients(value, module):
    found = torch.autograd.grad(value, list(module.parameters()), retain_graph=True, allow_unused=True)
    return [torch.zeros(()) if gradient is None else gradient for gradient in found]


class TestEdgeScorer:
    @pytest.mark.parametrize("kind", SETS)
    def test_factored_scores_equal_a_loop_over_edges(self, kind):
        schema, batch = some(kind)
        scorer = EdgeScorer(SMALL, schema, hidden=12).double().eval()
        scores, features = scorer(batch)
        scores = scores.squeeze(1)
        assert torch.equal(features, scorer.encoder(batch))
        for place, (u, v) in enumerate(batch.edge_index.T.tolist()):
            ends = [(u, v), (v, u) if batch.reverse[place] != place else (u, v)]
            plain = [
                scorer.last(
                    linear(torch.cat([features[a], features[b]]), scorer.first.weight, scorer.first.bias).relu()
                ).item()
                for a, b in ends
            ]
            assert scores[place].item() == pytest.approx(sum(plain) / 2, abs=1e-12)
        assert torch.equal(scores, scores[batch.reverse])


class TestTopEdges:
    @pytest.mark.parametrize("layout", ["exact", "padded"])
    @pytest.mark.parametrize("rounding", ["ceil", "floor"])
    @pytest.mark.parametrize("ratio", [0.0, 0.25, 0.5, 0.7, 1.0])
    def test_equals_a_loop_over_graphs(self, ratio, rounding, layout):
        _, batch = some(layout=layout)
        scores = drawn_scores(batch)
        kept = top_edges(scores, batch, ratio, rounding)
        expected = torch.zeros(batch.num_edges, dtype=torch.bool)
        for graph in range(6):
            rows = [e for e in range(batch.num_edges) if batch.edge_batch[e] == graph and e <= batch.reverse[e]]
            count = getattr(math, rounding)(round(ratio * len(rows), 6))
            for row in sorted(rows, key=lambda e: -scores[e].item())[:count]:
                expected[row] = expected[batch.reverse[row]] = True
        assert torch.equal(kept, expected)

    def test_graphs_do_not_compete_and_every_one_keeps_an_edge(self):
        _, batch = some()
        kept = top_edges(1e6 * batch.edge_batch.double(), batch, 1e-3)
        first = torch.arange(batch.num_edges) <= batch.reverse
        assert torch.equal(batch.sum_edges((kept & first).long()), batch.sum_edges(first.long()).clamp(max=1))

    def test_no_wrong_place_among_many_edges(self, motif):
        """A single key of graph and score would run out of digits here (P7)."""
        batch = whole(motif.graphs.select(motif["train"][:200]))
        both = torch.rand(batch.num_edges, generator=torch.Generator().manual_seed(0)) * 1e-6
        scores = (both + batch.reversed(both)) / 2
        kept = top_edges(scores, batch, 0.5)
        worst = torch.full((200,), 1.0).scatter_reduce(0, batch.edge_batch[kept], scores[kept], "amin")
        best = torch.full((200,), -1.0).scatter_reduce(0, batch.edge_batch[~kept], scores[~kept], "amax")
        assert (worst >= best).all()


class TestCut:
    @pytest.mark.parametrize("layout", ["exact", "padded"])
    @pytest.mark.parametrize("ratio", [0.0, 0.4, 1.0])
    def test_parts_share_out_the_edges_and_hold_the_nodes_they_touch(self, ratio, layout):
        _, batch = some(layout=layout)
        scores = drawn_scores(batch)
        kept = top_edges(scores, batch, ratio)
        rationale, complement = cut(scores, kept, batch)
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
        rationale, complement = cut(drawn_scores(batch), top_edges(drawn_scores(batch), batch, 1.0), batch)
        assert (rationale.node == 1).all()
        assert not complement.node.any()
        assert not complement.edge.any()
        net = GraphNet(SMALL, REAL).double()
        assert (embed_part(net, batch, complement) == 0).all()


class TestEmbedPart:
    @pytest.mark.parametrize("pool", ["mean", "sum"])
    @pytest.mark.parametrize("kind", ["gin", "gcn", "gcnii", "gat"])
    def test_equals_graphs_built_anew_without_the_other_nodes(self, kind, pool):
        """Also in training mode: batch norm sees the nodes of the part and no others."""
        _, batch = some()
        scores = drawn_scores(batch)
        kept = top_edges(scores, batch, 0.3)
        part, _ = cut(scores, kept, batch)
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
        part, _ = cut(drawn_scores(batch), top_edges(drawn_scores(batch), batch, 0.3), batch)
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
        with statistics_kept(net):
            forgotten = embed_part(net, batch, part)
        assert all(torch.equal(value, net.get_buffer(name)) for name, value in before.items())
        assert torch.equal(forgotten, embed_part(net, batch, part))
        assert not any(torch.equal(value, net.get_buffer(name)) for name, value in before.items())

    def test_pooled_rows_are_those_of_the_selected_nodes(self):
        """The public code pools the first rows of the batch instead."""
        _, batch = some()
        features = torch.randn(batch.num_nodes, 4, generator=torch.Generator().manual_seed(1)).double()
        part, _ = cut(drawn_scores(batch), top_edges(drawn_scores(batch), batch, 0.3), batch)
        for graph in range(6):
            rows = [n for n in range(batch.num_nodes) if batch.node_batch[n] == graph and part.node[n] > 0]
            assert torch.allclose(pool_part(features, part, batch, "mean")[graph], features[rows].mean(0))
            assert torch.allclose(pool_part(features, part, batch, "sum")[graph], features[rows].sum(0))


class SubgraphCase(MethodCase):
    """What both methods must do besides.

    Attributes:
        smooth: settings under which nothing but the cut can make the loss jump.
    """

    smooth: ClassVar[dict[str, Any]] = {}

    def zero_strength(self, method):
        keep_everything(method)

    def test_one_step_lowers_the_loss(self, motif, monkeypatch):
        """A small step lowers the loss on the cut it was made for; a cut that moves with it may make the loss jump."""
        graphs = motif.graphs.select(motif["train"][:8])
        batch = doubled(whole(graphs))
        lowered = 0
        for seed in range(20):
            method, stepper = self.ready(motif.schema, graphs, seed=seed, lr=1e-4, **self.smooth)
            held = top_edges(method.eval().scorer(batch)[0].squeeze(1), batch, method.settings.ratio)
            monkeypatch.setattr("outland.methods.parts.subgraphs.top_edges", lambda *given, held=held: held)
            first = stepper.backward(stepper.optimizers[0], batch, Progress())
            stepper.optimizers[0].adam.step()
            second = stepper.backward(stepper.optimizers[0], batch, Progress())
            lowered += bool(sum(second.values()) < sum(first.values()))
        assert lowered >= self.lowers

    @pytest.mark.parametrize("ratio", [0.25, 0.6])
    def test_parts_are_symmetric_disjoint_and_of_the_right_size(self, any_set, ratio):
        schema, graphs = any_set
        method, batch = self.build(schema, ratio=ratio).eval(), doubled(whole(graphs))
        parts = method.parts(batch)
        first = torch.arange(batch.num_edges) <= batch.reverse
        for mask in (parts.rationale, parts.complement):
            assert torch.equal(mask.edge, mask.edge[batch.reverse])
            assert mask.edge.min() >= 0
            assert mask.edge.max() <= 1
        stable, environment = parts.rationale.edge > 0, parts.complement.edge > 0
        assert (stable ^ environment).all()
        undirected_count = batch.sum_edges(first.long())
        expected = [math.ceil(ratio * m - 1e-9) for m in undirected_count.tolist()]
        assert batch.sum_edges((stable & first).long()).tolist() == expected

    def test_masks_are_scores_that_rank_the_edges_as_the_cut_does(self, any_set):
        schema, graphs = any_set
        method, batch = self.build(schema, ratio=0.4).eval(), doubled(whole(graphs))
        masks, parts = method.masks(batch), method.parts(batch)
        assert list(masks) == ["stable", "environment"]
        stable = masks["stable"]
        assert torch.equal(stable.edge, stable.edge[batch.reverse])
        assert torch.allclose(stable.edge + masks["environment"].edge, torch.ones_like(stable.edge))
        kept = parts.rationale.edge > 0
        assert torch.equal(stable.edge[kept], parts.rationale.edge[kept])
        for graph in range(len(graphs)):
            here = batch.edge_batch == graph
            if (here & kept).any() and (here & ~kept).any():
                assert stable.edge[here & kept].min() >= stable.edge[here & ~kept].max()
        for node in range(batch.num_nodes):
            touching = (batch.edge_index == node).any(0)
            best = stable.edge[touching].max().item() if touching.any() else 0.0
            assert stable.node[node].item() == best

    def test_padded_batches_have_the_same_logits_and_masks(self, any_set):
        schema, graphs = any_set
        method = self.build(schema).eval()
        exact, padded = doubled(whole(graphs)), doubled(whole(graphs, "padded"))
        assert torch.allclose(method(exact), method(padded)[: len(graphs)], atol=1e-9)
        for one, other in zip(method.masks(exact).values(), method.masks(padded).values(), strict=True):
            assert torch.allclose(one.edge, other.edge[: exact.num_edges], atol=1e-9)
            assert torch.allclose(one.node, other.node[: exact.num_nodes])
            assert not other.edge[exact.num_edges :].any()
            assert not other.node[exact.num_nodes :].any()

    def test_a_graph_without_edges_changes_no_other(self, any_set):
        schema, graphs = any_set
        method = self.build(schema).eval()
        fewer, more = graphs.select(torch.tensor([0, 3, 4])), graphs.select(torch.tensor([0, 3, 4, 1]))
        assert torch.allclose(method(doubled(whole(fewer))), method(doubled(whole(more)))[:3], atol=1e-12)

    def test_encoded_input_lets_the_rest_of_the_graph_through_and_raw_does_not(self, any_set):
        schema, graphs = any_set
        if schema.task.kind != "multiclass":
            return
        batch = doubled(whole(graphs))
        for chosen, leaks in (("raw", False), ("encoded", True)):
            method = self.build(schema, classifier_input=chosen).eval()
            parts = method.parts(batch)
            moved = torch.where((parts.rationale.node == 0)[:, None], batch.x + 1, batch.x)
            _, features = method.scorer(batch.replace(x=moved))
            other = type(parts)(parts.rationale, parts.complement, features)
            one = method.embed(batch, parts.rationale, parts)
            two = method.embed(batch.replace(x=moved), parts.rationale, other)
            assert torch.allclose(one, two, atol=1e-12) != leaks

    def test_inference_needs_no_environment_head(self, any_set):
        schema, _ = any_set
        counts = self.build(schema).parameter_counts()
        assert counts["inference"] == counts["scorer"] + counts["classifier"]

    def test_every_setting_is_described(self):
        assert all(meaning for _, _, meaning in describe(method_settings(self.name, {})))

    def test_ratio_is_a_share(self):
        with pytest.raises(OutlandError, match=r"method\.ratio must be from 0 to 1"):
            method_settings(self.name, {"ratio": 1.5})


class TestDIR(SubgraphCase):
    name = "dir"
    zero = {"ratio": 1.0, "alpha": 0}

    def test_golden(self):
        task = Task("multiclass", 2, "accuracy")
        batch = whole(PackedGraphs.from_data_list(odd_graphs()[:2])).replace(y=torch.tensor([0, 1]))
        risks = intervened_risks(numbers([1, 0], [0, 2]), numbers([0, 0], [2, -2]), batch, task)
        assert risks.tolist() == pytest.approx([0.3936693358, 0.4638873226], abs=1e-9)
        assert batch.mean_graphs(risks).item() == pytest.approx(0.4287783292, abs=1e-9)
        assert built("dir").variance(risks, batch).item() == pytest.approx(0.0024652828, abs=1e-9)
        summed = built("dir", variance="batch").variance(risks, batch)
        assert summed.item() == pytest.approx(0.0098611313, abs=1e-9)

    def test_golden_schedule(self):
        found = [built("dir", alpha=0.01).weight(Progress(epoch=epoch)) for epoch in (0, 1, 10, 100)]
        assert found == pytest.approx([0, 0.01, 0.3981071706, 15.8489319246], abs=1e-9)
        assert built("dir", alpha=0.01, power=0).weight(Progress(epoch=0)) == 0.01

    @pytest.mark.parametrize("kind", ["multiclass", "binary", "regression"])
    def test_all_pairs_equal_a_double_loop(self, kind):
        _, batch = some("chemical" if kind == "binary" else "real")
        task = Task(kind, 3 if kind == "multiclass" else 2, "accuracy")
        if kind == "regression":
            batch = batch.replace(y=torch.randn(6, 2, dtype=torch.double))
        logits, environment = torch.randn(2, 6, task.outputs, dtype=torch.double)
        risks = intervened_risks(logits, environment, batch, task)
        for j in range(6):
            losses, known = [], []
            for i in range(6):
                alone = batch.replace(y=batch.y[i : i + 1])
                loss, counts = label_losses(logits[i : i + 1] * environment[j].sigmoid(), alone, task)
                losses.append(loss.sum().item())
                known.append(counts.sum().item())
            assert risks[j].item() == pytest.approx(sum(losses) / sum(known), abs=1e-12)

    def test_equal_gates_have_no_variance_and_one_graph_has_none_either(self):
        _, batch = some()
        method, logits = built("dir"), torch.randn(6, 3, dtype=torch.double)
        risks = intervened_risks(logits, torch.randn(3, dtype=torch.double).expand(6, 3), batch, REAL.task)
        assert method.variance(risks, batch).item() == pytest.approx(0, abs=1e-25)
        single = doubled(whole(PackedGraphs.from_data_list(odd_graphs()[:1])))
        assert method.loss(single, Progress(epoch=10))["variance"].item() == 0

    def test_complement_loss_moves_its_head_alone_and_nothing_else_moves_the_head(self, any_set):
        schema, graphs = any_set
        method, batch = self.build(schema), doubled(whole(graphs))
        terms = method.loss(batch, Progress(epoch=10))
        complement = terms.pop("complement")
        others = torch.stack(list(terms.values())).sum()
        assert not any(g.any() for part in (method.scorer, method.classifier) for g in gradients(complement, part))
        assert any(g.any() for g in gradients(complement, method.environment_head))
        assert not any(g.any() for g in gradients(others, method.environment_head))
        assert any(g.any() for g in gradients(others, method.scorer))
        assert any(g.any() for g in gradients(terms["variance"], method.scorer))

    def test_the_loss_is_made_of_the_parts_it_says(self, any_set):
        schema, graphs = any_set
        method, batch = self.build(schema), doubled(whole(graphs))
        terms = method.loss(batch, Progress(epoch=10))
        fresh = self.build(schema)
        parts = fresh.parts(batch)
        logits = fresh.classifier.head(fresh.embed(batch, parts.rationale, parts), batch)
        for name, value in statistics(fresh.classifier).items():
            assert torch.equal(value, method.classifier.get_buffer(name))  # complements leave no trace
        gates = fresh.environment_head(fresh.embed(batch, parts.complement, parts), batch)
        risks = intervened_risks(logits, gates, batch, schema.task)
        weight = fresh.weight(Progress(epoch=10))
        expected = {
            "rationale": fresh.risk(logits, batch),
            "interventions": weight * risks.mean(),
            "variance": weight * risks.var(),
            "complement": fresh.risk(gates, batch),
        }
        assert list(terms) == list(expected)
        for name, value in expected.items():
            assert terms[name].item() == pytest.approx(value.item(), abs=1e-9)

    def test_without_strength_scores_learn_from_the_rationale_alone(self, any_set):
        schema, graphs = any_set
        method, batch = self.build(schema, alpha=0), doubled(whole(graphs))
        terms = method.loss(batch, Progress(epoch=10))
        together = gradients(torch.stack(list(terms.values())).sum(), method.scorer)
        alone = gradients(method.risk(method(batch), batch), method.scorer)
        assert any(g.any() for g in alone)
        for one, other in zip(together, alone, strict=True):
            assert torch.allclose(one, other, atol=1e-12)

    def test_objectives_and_cap(self, any_set):
        schema, graphs = any_set
        batch, late = doubled(whole(graphs)), Progress(epoch=100)
        free, capped, paper = (
            self.build(schema, **changes).loss(batch, late) for changes in ({}, {"cap": 1.0}, {"objective": "paper"})
        )
        assert list(paper) == ["interventions", "variance", "complement"]
        assert free["interventions"].item() == pytest.approx(0.01 * 100**1.6 * paper["interventions"].item())
        assert capped["interventions"].item() == pytest.approx(paper["interventions"].item())
        assert free["variance"].item() == capped["variance"].item() == paper["variance"].item()

    @pytest.mark.parametrize("changes", [{}, {"variance": "batch"}, {"objective": "paper"}])
    def test_padding_changes_nothing_late_in_training_either(self, any_set, changes):
        schema, graphs = any_set
        exact, padded = (
            self.build(schema, **changes).loss(doubled(whole(graphs, layout)), Progress(epoch=50))
            for layout in ("exact", "padded")
        )
        assert [term.item() for term in exact.values()] == pytest.approx([t.item() for t in padded.values()], abs=1e-9)


class TestCIGA(SubgraphCase):
    name = "ciga"
    zero = {"ratio": 1.0, "alpha": 0, "beta": 0}
    smooth = {"beta": 0}  # the hinge is a mean over labels that change sides from step to step

    def test_golden_hinge(self):
        rationale, complement = numbers([0.2], [1], [0.5]), numbers([0.6], [0.4], [0.7])
        known = torch.ones(3, 1, dtype=torch.bool)
        assert hinge(rationale, complement, known).item() == pytest.approx(0.65, abs=1e-9)
        assert hinge(rationale, complement, known, over="known").item() == pytest.approx(1.3 / 3, abs=1e-9)
        assert hinge(rationale, complement, known, side="better").item() == pytest.approx(0.4, abs=1e-9)
        known[0] = False
        assert hinge(rationale, complement, known).item() == pytest.approx(0.7, abs=1e-9)

    def test_hinge_is_zero_where_the_complement_is_no_worse(self):
        losses, known = numbers([0.6], [1]), torch.ones(2, 1, dtype=torch.bool)
        assert hinge(losses, losses, known).item() == 0
        assert hinge(losses, losses / 2, known).item() == 0

    def test_indicator_carries_no_gradient(self):
        rationale, complement = numbers([0.2], [1.0], requires_grad=True), numbers([0.6], [0.4], requires_grad=True)
        value = hinge(rationale, complement, torch.ones(2, 1, dtype=torch.bool))
        found = torch.autograd.grad(value, [rationale, complement], allow_unused=True)
        assert found[0] is None
        assert found[1].flatten().tolist() == [1, 0]

    @pytest.mark.parametrize("reach", ["all", "head"])
    def test_hinge_reaches_what_was_chosen(self, any_set, reach):
        schema, graphs = any_set
        method, batch = self.build(schema, hinge_reach=reach, hinge_mean="known"), doubled(whole(graphs))
        losses = method.complement_losses(batch, method.parts(batch)).sum()
        assert any(g.any() for g in gradients(losses, method.environment_head))
        for part in (method.scorer, method.classifier.encoder):
            assert any(g.any() for g in gradients(losses, part)) == (reach == "all")

    def test_the_hinge_is_the_complements(self, any_set):
        schema, graphs = any_set
        method, batch = self.build(schema, beta=0.7), doubled(whole(graphs))
        terms = method.loss(batch, Progress())
        fresh = self.build(schema, beta=0.7)
        parts = fresh.parts(batch)
        logits = fresh.classifier.head(fresh.embed(batch, parts.rationale, parts), batch)
        for name, value in statistics(fresh.classifier).items():
            assert torch.equal(value, method.classifier.get_buffer(name))
        others = fresh.environment_head(fresh.embed(batch, parts.complement, parts), batch)
        (own, known), (theirs, _) = (label_losses(out, batch, schema.task) for out in (logits, others))
        worse = (theirs > own) & known
        expected = 0.7 * theirs[worse].mean().item() if worse.any() else 0.0
        assert terms["hinge"].item() == pytest.approx(expected, abs=1e-9)

    def test_version_one_has_no_complement(self, any_set):
        schema, graphs = any_set
        torch.manual_seed(0)
        one = build_method("ciga", schema, SMALL, method_settings("ciga:v1", {})).double()
        assert one.environment_head is None
        assert list(one.loss(doubled(whole(graphs)), Progress())) == ["rationale", "contrast"]
        assert method_settings("ciga:v2", {}) == method_settings("ciga", {})
        assert method_settings("ciga:v2", {}).beta > 0

    def test_without_strength_it_classifies_subgraphs(self, any_set):
        schema, graphs = any_set
        method, batch = self.build(schema, alpha=0, beta=0), doubled(whole(graphs))
        terms = method.loss(batch, Progress())
        assert terms["contrast"].item() == 0
        assert terms["rationale"].item() == pytest.approx(method.risk(method(batch), batch).item(), abs=1e-12)

    @pytest.mark.parametrize("compared", ["classifier", "scorer"])
    def test_contrast_compares_what_was_chosen(self, any_set, compared):
        schema, graphs = any_set
        method, batch = self.build(schema, contrast=compared, beta=0), doubled(whole(graphs))
        parts, term = method.parts(batch), method.loss(batch, Progress())["contrast"]
        h = method.embed(batch, parts.rationale, parts)
        if compared == "scorer":
            kept = touched(parts.rationale.edge > 0, batch) | (parts.rationale.node > 0)
            rows = [kept.nonzero().flatten()[batch.node_batch[kept] == graph] for graph in range(6)]
            h = torch.stack([parts.features[chosen].mean(0) for chosen in rows])
        _, known = label_losses(method(batch), batch, schema.task)
        expected = 4 * supervised_contrast(h, batch.y.reshape(6, -1), known)
        assert term.item() == pytest.approx(expected.item(), abs=1e-9)
        assert any(g.any() for g in gradients(term, method.classifier)) == (compared == "classifier")


class TestContrast:
    def contrast(self, h, y, temperature=1.0):
        return supervised_contrast(h, y[:, None], torch.ones(len(y), 1, dtype=torch.bool), temperature).item()

    def drawn(self):
        random = torch.Generator().manual_seed(0)
        return torch.randn(9, 4, generator=random, dtype=torch.double), torch.arange(9) % 3

    def test_golden(self):
        h, y = numbers([1, 0], [0, 1], [1, 1], [1, -1]), torch.tensor([0, 0, 1, 1])
        assert self.contrast(h, y) == pytest.approx(1.4397091714, abs=1e-9)
        assert self.contrast(h, y, 0.5) == pytest.approx(1.9501829142, abs=1e-9)

    def test_known_values(self):
        y = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
        assert self.contrast(numbers([1, 2]).expand(8, 2), y) == pytest.approx(math.log(7))
        antipodal = numbers([1, 0], [-1, 0]).repeat_interleave(4, 0)
        assert self.contrast(antipodal, y) == pytest.approx(1.2645, abs=5e-5)

    def test_order_rotation_and_length_do_not_matter(self):
        h, y = self.drawn()
        expected = self.contrast(h, y)
        order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
        rotation, _ = torch.linalg.qr(torch.randn(4, 4, generator=torch.Generator().manual_seed(2)).double())
        lengths = torch.linspace(0.1, 5, 9, dtype=torch.double)[:, None]
        for other, labels in ((h[order], y[order]), (h @ rotation, y), (h * lengths, y), (h, 2 - y)):
            assert self.contrast(other, labels) == pytest.approx(expected, abs=1e-12)

    def test_equals_a_loop_over_tasks_and_anchors_with_unknown_labels(self):
        h, _ = self.drawn()
        random = torch.Generator().manual_seed(3)
        labels = torch.randint(0, 2, (9, 3), generator=random).double()
        known = torch.rand(9, 3, generator=random) > 0.3
        known[:, 2] = False
        labels[~known] = torch.nan
        unit, anchors = h / h.norm(dim=1, keepdim=True), []
        for task in range(3):
            for i in range(9):
                others = [k for k in range(9) if k != i and known[k, task] and known[i, task]]
                positives = [j for j in others if labels[j, task] == labels[i, task]]
                if positives:
                    total = math.log(sum(math.exp(unit[i] @ unit[k] / 0.7) for k in others))
                    anchors.append(sum((unit[i] @ unit[j] / 0.7).item() - total for j in positives) / len(positives))
        found = supervised_contrast(h, labels, known, 0.7).item()
        assert found == pytest.approx(-sum(anchors) / len(anchors), abs=1e-12)

    def test_no_label_twice_costs_nothing_and_has_no_gradient(self):
        h = torch.randn(3, 4, dtype=torch.double, requires_grad=True)
        for rows in (1, 3):
            value = supervised_contrast(h[:rows], torch.arange(rows)[:, None], torch.ones(rows, 1, dtype=torch.bool))
            (slope,) = torch.autograd.grad(value, h)
            assert value.item() == 0
            assert not slope.any()


@BOTH
def test_backbones_and_options_all_serve(name):
    _, batch = some()
    for kind in ("gcn", "gcnii", "gat"):
        for chosen in ("raw", "encoded"):
            settings = BackboneSettings(kind=kind, width=8, heads=2, layers=2, pool="sum", head="mlp")
            method = built(name, backbone=settings, classifier_input=chosen, rounding="floor")
            assert all(term.isfinite() for term in method.loss(batch, Progress(epoch=3)).values())


@BOTH
def test_regression_is_served(name):
    schema = type(REAL)(REAL.node, Task("regression", 1, "rmse"), environments=2)
    _, batch = some()
    batch = batch.replace(y=torch.randn(6, 1, dtype=torch.double))
    method = built(name, schema)
    assert all(term.isfinite() for term in method.loss(batch, Progress(epoch=3)).values())
    assert method(batch).shape == (6, 1)
