import dataclasses
import math

import pytest
import torch
from torch_geometric.data import Data

from outland.graphs import Batches, PackedGraphs
from outland.methods import Progress, build_method, method_settings
from outland.training import Trainer
from tests.cases import FRAME, SMALL, MethodCase, doubled
from tests.conftest import whole


class TestDropEdge(MethodCase):
    name = "dropedge"
    zero = {"drop": 0}

    def test_everything_dropped_is_erm_on_graphs_without_edges(self, any_set):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs, drop=1.0)
        bare = [Data(**{**graph.to_dict(), "edge_index": graph.edge_index[:, :0]}) for graph in graphs.to_data_list()]
        for graph in bare:
            if graph.edge_attr is not None:
                graph.edge_attr = graph.edge_attr[:0]
        edgeless = doubled(whole(PackedGraphs.from_data_list(bare)))
        expected = method.risk(method.classifier(edgeless), edgeless)
        batch = doubled(whole(graphs))
        assert method.loss(batch, Progress())["risk"].item() == pytest.approx(expected.item(), abs=1e-9)
        assert expected.item() != pytest.approx(method.risk(method.classifier(batch), batch).item(), abs=1e-3)

    def test_dropping_nothing_trains_exactly_as_erm_does(self, any_splits):
        """Dropout and all: its draws are not the method's."""
        curves = []
        for name, changes in (("erm", {}), ("dropedge", {"drop": 0.0})):
            torch.manual_seed(0)
            backbone = dataclasses.replace(SMALL, dropout=0.5)
            method = build_method(name, any_splits.schema, backbone, method_settings(name, changes))
            run = Trainer(method, any_splits, FRAME, 0)
            run.fit()
            curves.append(run.curves)
        assert curves[0] == curves[1]

    def test_both_directions_go_together_at_the_right_rate(self, motif):
        batch = next(iter(Batches(motif.graphs, motif["train"][:400], 400)))
        method = build_method("dropedge", motif.schema, SMALL, method_settings("dropedge", {"drop": 0.3}))
        kept = method.augment(batch).edge
        assert torch.equal(kept, kept[batch.reverse])
        undirected = len(kept) / 2
        assert abs(kept.mean().item() - 0.7) < 3 * math.sqrt(0.7 * 0.3 / undirected)
        assert not torch.equal(kept, method.augment(batch).edge)

    def test_everything_dropped_still_runs_and_eval_is_deterministic(self, any_set):
        schema, graphs = any_set
        method, stepper = self.ready(schema, graphs, drop=1.0)
        batch = doubled(whole(graphs))
        assert stepper.step(batch, Progress())["risk.risk"].isfinite()
        method.eval()
        assert torch.equal(method(batch), method(batch))
