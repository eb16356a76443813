import torch

from outland.report.study import stable_mask_pictures, write_report
from outland.studies import find_study
from outland.studies.pictures import PictureCallback, mask_pictures, smallest_of_each_class, truth_pictures
from outland.studies.results import Results
from outland.studies.runner import run_study
from outland.training import RunSpec, Trainer, prepare, run

TINY = ["train.epochs=5", "data.limit=48", "backbone.width=8"]


def test_the_smallest_graph_of_each_class_is_shown(motif):
    index = smallest_of_each_class(motif, "test")
    test = motif["test"]
    assert motif.graphs.y[index].tolist() == [0, 1, 2]
    for label, place in enumerate(index.tolist()):
        same = test[motif.graphs.y[test] == label]
        assert motif.graphs.node_counts[place] == motif.graphs.node_counts[same].min()
    truth = truth_pictures(motif.graphs.select(index))
    assert [sum(one["node"]) for one in truth] == [5, 5, 5]  # every motif has five nodes
    assert all(len(one["edge"]) == len(one["ends"]) for one in truth)


def test_pictures_hold_the_masks_of_the_model(motif, cache):
    method, splits = prepare(RunSpec.from_words("motif", "aia", TINY), torch.device("cpu"), cache)
    method.eval()
    index = smallest_of_each_class(splits, "test")
    found = mask_pictures(method, splits, index, "stable")
    assert [len(one["node"]) for one in found] == splits.graphs.node_counts[index].tolist()
    assert all(0 <= weight <= 1 for one in found for weight in one["edge"])


def test_augmented_graphs_are_pictured_from_first_epoch_to_last(motif, cache):
    spec = RunSpec.from_words("motif", "aia", TINY)
    method, splits = prepare(spec, torch.device("cpu"), cache)
    album = PictureCallback.over_training(method, splits, spec.train.epochs, moments=3)
    Trainer(method, splits, spec.train, spec.seed, None, album).fit()
    found = album.with_truth()
    assert sorted({one["epoch"] for one in found}) == [0, 1, 3, 5]
    assert len(found) == 4 * 3
    first, last = ([one["edge"] for one in found if one["epoch"] == epoch] for epoch in (1, 5))
    assert first != last


def test_taking_pictures_does_not_disturb_training(motif, cache, tmp_path):
    spec = RunSpec.from_words("motif", "aia", TINY)
    method, splits = prepare(spec, torch.device("cpu"), cache)
    album = PictureCallback(method, splits, smallest_of_each_class(splits, "train"), "merged", list(range(5)))
    trainer = Trainer(method, splits, spec.train, spec.seed, None, album)
    trainer.fit()
    assert len(album.pictures) == 5 * 3
    assert trainer.curves == run(spec, tmp_path, device="cpu", cache=cache).curves


def test_the_page_of_masks_shows_the_truth_and_each_method(motif, cache, tmp_path):
    study = find_study("masks")
    cells = study.cells(1, ["train.epochs=1", *TINY[1:]], ["CAL/motif-base", "AIA/motif-base"])
    run_study(study, cells, tmp_path, device="cpu", cache=cache)
    pictures = stable_mask_pictures(Results.read(study, cells, tmp_path), tmp_path, None, cache)
    assert list(pictures) == ["truth", "CAL", "AIA"]
    text = write_report(study, cells, tmp_path, [], None, cache).read_text()
    assert text.count('class="chart graph"') == 9
    assert {path.suffix for path in tmp_path.glob("masks-1-seed-part-*")} == {".html", ".md", ".tex", ".csv"}
