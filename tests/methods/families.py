"""What every method of one family must do besides: attention, subgraphs, weights on graphs."""

import dataclasses
import math
from typing import Any, ClassVar

import pytest
import torch

from outland.errors import OutlandError
from outland.graphs import PackedGraphs, Task
from outland.methods import Progress, build_method, find_method, method_settings
from outland.methods.parts.ranking import top_edges
from outland.nn import BACKBONES, BackboneSettings
from outland.settings import describe
from outland.training.stepper import Stepper
from tests.cases import FRAME, SMALL, MethodCase, doubled
from tests.conftest import CHEMICAL, REAL, chemical_graphs, odd_graphs, whole
from tests.methods.cases import built, odd_batch, padded_with_graphs, some


class AttentionCase(MethodCase):
    """What both methods of attention must do besides."""

    def test_every_backbone_serves_and_every_setting_is_explained(self):
        batch = odd_batch()
        for kind in BACKBONES:
            settings = BackboneSettings(kind=kind, width=8, heads=2, layers=2, virtual_node=kind == "gin")
            terms = built(self.name, backbone=settings).loss(batch, Progress())
            assert all(term.isfinite() for term in terms.values())
        assert all(meaning for _, _, meaning in describe(find_method(self.name).Settings()))

    def test_a_graph_without_edges_changes_no_other_prediction(self):
        method = built(self.name).eval()
        graphs = PackedGraphs.from_data_list(odd_graphs())
        few, more = (doubled(whole(graphs.select(torch.tensor(selected)))) for selected in ([0, 3, 4], [0, 3, 4, 2]))
        assert torch.allclose(method(few), method(more)[:3])

    def test_masks_of_every_kind_of_graph(self, any_set):
        schema, graphs = any_set
        for layout in ("exact", "padded"):
            batch = doubled(whole(graphs, layout))
            stable = built(self.name, schema).eval().masks(batch)["stable"]
            assert stable.node.shape == (batch.num_nodes,)
            assert stable.edge.shape == (batch.num_edges,)

    @pytest.mark.usefixtures("steady_draws")
    def test_regression_with_unknown_labels_ignores_padding(self):
        schema = dataclasses.replace(REAL, task=Task("regression", 1, "rmse"))
        results = []
        for layout in ("exact", "padded"):
            batch = odd_batch(layout)
            y = batch.y[:, None].double()
            y[1] = float("nan")
            method = built(self.name, schema, **({"dropout": 0} if self.name == "gsat" else {}))
            terms = method.loss(batch.replace(y=y), Progress())
            sum(terms.values()).backward()
            results.append([*terms.values(), *(p.grad for p in method.parameters() if p.grad is not None)])
        for first, second in zip(*results, strict=True):
            assert first.isfinite().all()
            assert torch.allclose(first, second, atol=1e-9)


def keep_everything(method):
    """Scores so high that every weight of the rationale is exactly 1."""
    method.scorer.forward = lambda batch: (
        torch.full((batch.num_edges, 1), 1e3, dtype=torch.double),
        torch.zeros(batch.num_nodes, SMALL.width, dtype=torch.double),
    )


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
        for first, second in zip(method.masks(exact).values(), method.masks(padded).values(), strict=True):
            assert torch.allclose(first.edge, second.edge[: exact.num_edges], atol=1e-9)
            assert torch.allclose(first.node, second.node[: exact.num_nodes])
            assert not second.edge[exact.num_edges :].any()
            assert not second.node[exact.num_nodes :].any()

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
        for selected, leaks in (("raw", False), ("encoded", True)):
            method = self.build(schema, classifier_input=selected).eval()
            parts = method.parts(batch)
            moved = torch.where((parts.rationale.node == 0)[:, None], batch.x + 1, batch.x)
            _, features = method.scorer(batch.replace(x=moved))
            moved_parts = type(parts)(parts.rationale, parts.complement, features)
            before = method.embed_part(batch, parts.rationale, parts)
            after = method.embed_part(batch.replace(x=moved), parts.rationale, moved_parts)
            assert torch.allclose(before, after, atol=1e-12) != leaks

    def test_inference_needs_no_environment_head(self, any_set):
        schema, _ = any_set
        counts = self.build(schema).parameter_counts()
        assert counts["inference"] == counts["scorer"] + counts["classifier"]

    def test_every_setting_is_described(self):
        assert all(meaning for _, _, meaning in describe(method_settings(self.name, {})))

    def test_ratio_is_a_share(self):
        with pytest.raises(OutlandError, match=r"method\.ratio must be from 0 to 1"):
            method_settings(self.name, {"ratio": 1.5})

    def test_backbones_and_options_all_serve(self):
        _, batch = some()
        for kind in ("gcn", "gcnii", "gat"):
            for selected in ("raw", "encoded"):
                settings = BackboneSettings(kind=kind, width=8, heads=2, layers=2, pool="sum", head="mlp")
                method = built(self.name, backbone=settings, classifier_input=selected, rounding="floor")
                assert all(term.isfinite() for term in method.loss(batch, Progress(epoch=3)).values())

    def test_regression_is_served(self):
        schema = type(REAL)(REAL.node, Task("regression", 1, "rmse"), environments=2)
        _, batch = some()
        batch = batch.replace(y=torch.randn(6, 1, dtype=torch.double))
        method = built(self.name, schema)
        assert all(term.isfinite() for term in method.loss(batch, Progress(epoch=3)).values())
        assert method(batch).shape == (6, 1)


class WeightedCase(MethodCase):
    """What both methods share."""

    zero = {"inner_steps": 0}

    def test_no_inner_steps_and_no_warm_up_give_exactly_the_mean(self, any_set):
        schema, graphs = any_set
        for changes in ({"inner_steps": 0}, {"warm_up": 3}):
            for batch in (doubled(whole(graphs)), padded_with_graphs(graphs)):
                method, _ = self.ready(schema, graphs, **changes)
                method.eval()
                terms = method.loss(batch, Progress(epoch=2))
                assert torch.equal(terms["weighted_risk"], method.risk(method(batch), batch))
                assert method.diagnostics()["effective_sample_size"] == 1
                assert (method.weighter.seen == 0).all()
        method.loss(batch, Progress(epoch=3))
        assert method.weighter.seen.sum() == min(len(graphs), method.settings.memory)

    def test_padding_graphs_change_neither_losses_nor_gradients(self, any_set):
        schema, graphs = any_set
        results = []
        for batch in (doubled(whole(graphs)), padded_with_graphs(graphs)):
            method, stepper = self.ready(schema, graphs)
            actual = []
            for _ in range(2):  # the second step has a memory
                actual += stepper.step(batch, Progress()).values()
            actual += [parameter.grad for parameter in method.parameters() if parameter.grad is not None]
            results.append([*actual, *method.weighter.buffers()])
        for first, second in zip(*results, strict=True):
            assert torch.allclose(first, second, atol=1e-7)

    def test_one_step_lowers_the_loss(self, motif, monkeypatch):
        """The loss with the step's own weights: those of the next are drawn anew and make another loss of it."""
        learned, kept = find_method(self.name).weights, {}

        def once(method, z, batch, progress):
            if id(method) not in kept:
                kept[id(method)] = method, learned(method, z, batch, progress)
            return kept[id(method)][1]

        monkeypatch.setattr(find_method(self.name), "weights", once)
        super().test_one_step_lowers_the_loss(motif)
        assert len(kept) == 20

    def test_weights_move_and_are_told(self, motif):
        graphs = motif.graphs.select(motif["train"][:32])
        method, _ = self.ready(motif.schema, graphs)
        terms = method.loss(doubled(whole(graphs)), Progress())
        assert list(terms) == ["weighted_risk"]
        assert 1 / 32 <= method.diagnostics()["effective_sample_size"] < 1
        assert not method.diagnostics()["effective_sample_size"].requires_grad

    @pytest.mark.parametrize("features", ["standardised", "raw", "normalised"])
    @pytest.mark.parametrize("pairs", ["same", "all"])
    def test_every_kind_of_feature_trains(self, features, pairs):
        torch.manual_seed(0)
        settings = method_settings(self.name, {"features": features, "pairs": pairs, "frequencies": 3})
        method = build_method(self.name, CHEMICAL, SMALL, settings)
        stepper = Stepper(method, FRAME)
        batch = whole(PackedGraphs.from_data_list(chemical_graphs()))
        for _ in range(2):
            assert stepper.step(batch, Progress())["risk.weighted_risk"].isfinite()
