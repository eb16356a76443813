import pytest
import torch

from outland.graphs import GraphBatch, PackedGraphs, Task
from outland.methods.parts import risk
from outland.methods.parts.risk import label_losses, mean_over, mean_risk, partial_risk
from tests.conftest import chemical_graphs, whole

LOGITS = torch.tensor([[1, 0, -1], [0.5, -0.5, 0], [2, 1, 0], [-1, 0, 1]], dtype=torch.double)


def labelled(y: torch.Tensor, layout: str = "exact") -> GraphBatch:
    batch = whole(PackedGraphs.from_data_list(chemical_graphs()[: len(y)]), layout)
    return batch.replace(y=y)


def test_mean_over_what_counts():
    values = torch.tensor([1.0, 2.0, float("nan")])
    assert mean_over(values, torch.tensor([True, True, False])).item() == 1.5
    assert mean_over(values, torch.zeros(3, dtype=torch.bool)).item() == 0
    assert mean_over(values[:0], torch.ones(0, dtype=torch.bool)).item() == 0


def test_golden_cross_entropy():
    batch = labelled(torch.tensor([0, 1, 0, 2]))
    task = Task("multiclass", 3, "accuracy")
    losses, known = label_losses(LOGITS, batch, task)
    expected = torch.tensor([0.4076059644, 1.6802696706, 0.4076059644, 0.4076059644], dtype=torch.double)
    assert torch.allclose(losses[:, 0], expected, atol=1e-9)
    assert known.all()
    assert mean_risk(LOGITS, batch, task).item() == pytest.approx(0.7257718910, abs=1e-9)


def test_golden_binary_loss():
    batch = labelled(torch.tensor([[1.0], [1.0]]))
    logits = torch.tensor([[2.0], [-1.0]], dtype=torch.double)
    assert mean_risk(logits, batch, Task("binary", 1, "rocauc")).item() == pytest.approx(0.7200948493, abs=1e-9)


def test_unknown_labels_and_padding_have_no_loss_and_no_gradient():
    nan = float("nan")
    y = torch.tensor([[1.0, nan], [nan, 0.0], [0.0, 1.0], [nan, nan]])
    logits = torch.randn(4, 2, dtype=torch.double, requires_grad=True)
    task = Task("binary", 2, "rocauc")
    mean = mean_risk(logits, labelled(y), task)
    mean.backward()
    assert (logits.grad[y.isnan()] == 0).all()
    assert (logits.grad[~y.isnan()] != 0).all()
    losses, known = label_losses(logits, labelled(y), task)
    assert known.sum() == 4
    assert mean.item() == pytest.approx((losses.sum() / 4).item())
    assert mean_risk(logits, labelled(torch.full((4, 2), nan)), task).item() == 0


def test_regression_is_squared_error():
    batch = labelled(torch.tensor([[1.0], [float("nan")], [3.0]]))
    prediction = torch.tensor([[2.0], [9.0], [1.0]])
    assert mean_risk(prediction, batch, Task("regression", 1, "rmse")).item() == pytest.approx(2.5)


def test_a_partial_risk_is_over_the_known_labels_of_all_graphs(monkeypatch):
    nan = float("nan")
    y = torch.tensor([[1.0, nan], [nan, 0.0], [0.0, 1.0], [nan, nan]])
    logits = torch.randn(4, 2, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    task, batch = Task("binary", 2, "rocauc"), labelled(y)
    losses, _ = label_losses(logits, batch, task)
    counted = torch.tensor([True, False, True, True])
    assert partial_risk(logits, batch, task, counted).item() == pytest.approx((losses[[0, 2]].sum() / 4).item())
    everything = torch.ones(4, dtype=torch.bool)
    assert partial_risk(logits, batch, task, everything).item() == pytest.approx(mean_risk(logits, batch, task).item())
    # Another process with three times the loss and twice the labels.
    monkeypatch.setattr(risk, "all_reduce_sum", lambda value: value * (4 if value.is_floating_point() else 3))
    expected = (4 * losses.sum() / 12).item()
    assert partial_risk(logits, batch, task, everything).item() == pytest.approx(expected)
