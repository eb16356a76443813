import math

import pytest
import torch
from torch_geometric.data import Data

from outland.errors import OutlandError
from outland.graphs import Features, PackedGraphs, Schema, Splits, Task
from outland.methods import Progress, build_method, method_settings
from outland.methods.parts.graphons import degrees, join
from outland.methods.parts.risk import label_losses
from outland.training import Trainer
from tests.cases import FRAME, SMALL, MethodCase, doubled
from tests.conftest import odd_graphs, whole
from tests.methods.cases import same_graphs


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
            actual = torch.cat([batch.index for batch in seen]).unique()
            assert len(actual) == len(method.synthetic.graphs) == max(1, round(ratio * 6))

    def test_one_class_leaves_erm(self, any_set):
        schema, graphs = any_set
        method = self.build(schema)
        alike = torch.tensor([0, 0, 3]) if schema.task.kind == "multiclass" else torch.tensor([0, 2])
        method.prepare(graphs, alike, 0)
        assert method.synthetic is None

    def test_regression_mixes_the_means_of_its_halves(self):
        data = odd_graphs()
        for position, graph in enumerate(data):
            graph.y = torch.tensor([[float(position), math.nan if position else 8.0]])
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
