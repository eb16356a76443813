import pytest

from outland.report.study import write_report
from outland.shift import ShiftSettings, fresh_draws
from outland.studies import find_study, measures
from outland.studies.run_store import RunStore
from outland.studies.runner import run_study
from tests.methods.cases import built
from tests.shift.cases import NET

TINY = ["train.epochs=5", "data.limit=48", "backbone.width=8"]


def test_the_study_of_diversity_measures_entropies_and_shows_augmented_graphs(motif, cache, tmp_path):
    study = find_study("diversity")
    cells = study.cells(1, TINY, ["AIA", "DropEdge"])
    assert run_study(study, cells, tmp_path, device="cpu", cache=cache).states == {"done": 2}
    found = {cell.row.label: RunStore(study, tmp_path).measurement(cell.specs[0]).values for cell in cells}
    # Five draws of which each drops an edge with chance 0.2: the mean entropy of their frequencies is 0.549 bits.
    assert found["DropEdge"]["full"] == pytest.approx(0.549, abs=0.05)
    assert set(found["AIA"]) == {"full", "env", "stable", "node_full", "node_env", "node_stable"}
    assert found["DropEdge"]["node_full"] == 0  # it drops no nodes
    assert all(0 <= value <= 1 for value in found["AIA"].values())
    text = write_report(study, cells, tmp_path, [], None, cache).read_text()
    assert text.count('class="chart graph"') == 3 * 6  # the truth and five moments
    assert "0.561 ± 0.223" in text  # the paper's


def test_entropies_are_of_edges_and_of_nodes(motif):
    method, splits = built("aia:rdia", schema=motif.schema).float(), motif
    values = measures.mask_entropies(fresh_draws(method, splits, 50, most=20))
    # A fifth of edges and nodes is dropped, rounded down in each graph: 0.72 bits at most, of the log2(10) of ten bins.
    assert 0.15 < values["full"] < 0.218
    assert 0.12 < values["node_full"] < 0.218
    assert values["node_full"] != values["full"]


def test_the_study_of_shift_measures_augmented_graphs(motif, cache, tmp_path, monkeypatch):
    settings = ShiftSettings(trials=1, folds=3, steps=16, samples=500, epsilon=1e-12, backbone=NET)
    monkeypatch.setattr(measures, "SETTINGS", settings)
    study = find_study("shift")
    words = ["train.epochs=1", "backbone.width=8"]
    cells = study.cells(1, [*words, "data.limit=120"], ["Original/motif-size"])
    cells += study.cells(1, [*words, "data.limit=30"], ["DropEdge/motif-size", "AIA/motif-size"])
    assert run_study(study, cells, tmp_path, device="cpu", cache=cache).states == {"done": 3}
    found = {cell.row.label: RunStore(study, tmp_path).measurement(cell.specs[0]).values for cell in cells}
    # Over five seeds the null is 0.00 to 0.04 (of half as many graphs 0.04 to 0.12), and sizes that never occur in
    # training are 1.00 away, after a glance at them.
    assert found["Original"]["aug_train"] < 0.1
    assert found["Original"]["aug_test"] > 0.8
    names = {"aug_train", "aug_test", "aug_train_mean", "aug_test_mean"}
    assert all(set(values) == names for values in found.values())
    assert found["Original"]["aug_test_mean"] != found["Original"]["aug_test"]


def test_the_second_domain_classifier_reads_like_the_papers():
    ours, papers = measures.SETTINGS, measures.papers_classifier(measures.SETTINGS)
    assert (ours.label_input, ours.backbone.pool, ours.backbone.head) == (True, "sum", "mlp")
    assert (papers.label_input, papers.backbone.pool, papers.backbone.head) == (False, "mean", "linear")
    assert (papers.epsilon, papers.steps, papers.folds) == (ours.epsilon, ours.steps, ours.folds)
