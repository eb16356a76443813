import sys
from types import SimpleNamespace

import pytest
import torch

from outland.training.capture import GraphCapture
from outland.training.evaluate import Evaluation, predict
from tests.training.cases import trainer


def scores_after_a_change(splits, capture, monkeypatch):
    """Scores of two evaluations of changed weights, and how many batches were collated for them."""
    run = trainer(splits)
    run.method.reseed(0, run.device)
    evaluation = Evaluation(run.method, splits, 4, capture)
    collated = []
    gather = evaluation._batches.gatherer.exact
    monkeypatch.setattr(evaluation._batches.gatherer, "exact", lambda *args: collated.append(1) or gather(*args))
    logits = []
    for _ in range(2):
        with torch.no_grad():
            for parameter in run.method.parameters():
                parameter.mul_(1.5)
        evaluation.run()
        logits.append(evaluation.logits.clone())
    assert not torch.allclose(*logits)
    return torch.stack(logits), evaluation.scores.clone(), len(collated)


def test_a_captured_evaluation_collates_its_batches_once_and_scores_the_weights_of_the_moment(any_splits, monkeypatch):
    fresh, scores, collated = scores_after_a_change(any_splits, None, monkeypatch)
    batches = sum(len(index) for part, index in any_splits.parts.items() if part != "train") / 4
    assert collated >= 2 * batches
    captured = GraphCapture(torch.device("cpu"))
    kept, kept_scores, collated = scores_after_a_change(any_splits, captured, monkeypatch)
    assert collated == 0
    assert torch.equal(kept, fresh)
    assert torch.equal(kept_scores, scores)


@pytest.mark.parametrize("spare", [-1, 0])
def test_batches_of_too_many_bytes_are_not_kept(any_splits, monkeypatch, spare):
    graphs = any_splits.graphs
    index = torch.cat([index for part, index in any_splits.parts.items() if part != "train"])
    of_edge = 64 + (0 if graphs.edge_attr is None else graphs.edge_attr[0].nbytes)
    size = int(graphs.node_counts[index].sum()) * (32 + graphs.x[0].nbytes)
    size += int(graphs.edge_counts[index].sum()) * of_edge
    monkeypatch.setattr(sys.modules[Evaluation.__module__], "_MOST_KEPT", size + spare)
    *_, collated = scores_after_a_change(any_splits, GraphCapture(torch.device("cpu")), monkeypatch)
    assert (collated == 0) == (spare == 0)


@pytest.mark.parametrize(("memory", "bytes_kept"), [(8e9, 4e8), (1.4e11, 4.2e9)])
def test_a_large_gpu_keeps_more_batches(monkeypatch, memory, bytes_kept):
    properties = SimpleNamespace(total_memory=memory)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    most_kept = sys.modules[Evaluation.__module__]._most_kept
    assert most_kept(torch.device("cuda")) == pytest.approx(bytes_kept)
    assert most_kept(torch.device("cpu")) == 4e8


@pytest.mark.parametrize(("graphs", "size"), [(0.5, 1), (2.5, 2), (100, 4)])
def test_batches_of_large_graphs_have_fewer_of_them(any_splits, monkeypatch, graphs, size):
    """By the part whose graphs are the largest."""
    rows = (any_splits.graphs.node_counts + any_splits.graphs.edge_counts).double()
    parts = [index for part, index in any_splits.parts.items() if part != "train"]
    largest = max(float(rows[index].mean()) for index in parts)
    monkeypatch.setattr(sys.modules[Evaluation.__module__], "_MOST_ROWS", graphs * largest)
    run = trainer(any_splits)
    evaluation = Evaluation(run.method, any_splits, 4)
    assert evaluation._batches.size == size
    evaluation.run()
    assert torch.allclose(evaluation.logits, predict(run.method, any_splits.graphs, torch.cat(parts), 100), atol=1e-5)
    assert evaluation.logits.shape == (sum(map(len, parts)), any_splits.schema.task.outputs)
