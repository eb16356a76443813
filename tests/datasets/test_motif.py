import pytest
import torch

from outland.datasets.motif import PUBLISHED, Motif, generate
from outland.errors import OutlandError
from outland.graphs.dataset import fingerprint

SIZES = {
    "covariate": {"train": 18000, "id_val": 3000, "id_test": 3000, "val": 3000, "test": 3000},
    "concept": {"train": 12600, "id_val": 2700, "id_test": 2700, "val": 6000, "test": 6000},
    "none": {"train": 18000, "val": 6000, "test": 6000},
}
# Mean nodes and directed edges; the covariate rows are the paper's table.
AVERAGES = {
    "base/covariate": {
        "train": (17.07, 48.89),
        "val": (15.82, 33.00),
        "test": (14.97, 31.54),
        "id_val": (17.04, 48.83),
    },
    "size/covariate": {
        "train": (16.93, 43.57),
        "val": (39.22, 107.03),
        "test": (87.18, 239.65),
        "id_val": (16.89, 43.35),
    },
    "base/concept": {"train": (16.90, 48.48), "val": (17.04, 48.91), "test": (17.02, 48.69)},
    "size/concept": {"train": (51.77, 141.83), "val": (51.48, 140.20), "test": (51.60, 141.52)},
    "base/none": {"train": (16.36, 42.09), "val": (16.53, 42.70), "test": (16.25, 41.74)},
}


@pytest.mark.parametrize("kind", Motif.kinds)
@pytest.mark.parametrize("domain", Motif.domains)
def test_graphs_are_the_published_ones(cache, domain, kind):
    splits = Motif().load(domain, kind, cache=cache).check()
    assert {name: len(index) for name, index in splits.parts.items()} == SIZES[kind]
    published = [key for key in PUBLISHED if key.startswith(f"{domain}/{kind}/")]
    verdicts = Motif().verify(splits, domain, kind)
    assert len(verdicts) == len(published) > 0
    assert all(verdicts.values())
    for part, (nodes, edges) in AVERAGES.get(f"{domain}/{kind}", {}).items():
        graphs = splits.part(part)
        assert round(graphs.node_counts.double().mean().item(), 2) == nodes
        assert round(graphs.edge_counts.double().mean().item(), 2) == edges


def test_there_are_seventeen_distinct_fingerprints():
    assert len(PUBLISHED) == 18
    assert len({graphs for graphs, _ in PUBLISHED.values()}) == 17  # no_shift is the same in both domains


def test_first_labels_and_sizes(motif):
    train = motif.part("train")
    assert train.y[:10].tolist() == [2, 1, 2, 0, 0, 1, 1, 0, 1, 0]
    assert train.node_counts[:10].tolist() == [18, 27, 12, 12, 35, 12, 12, 12, 15, 21]
    assert motif.part("test").y[:10].tolist() == [2, 2, 1, 1, 2, 1, 2, 1, 1, 2]


def test_truth_base_motif_and_environment_are_kept(motif):
    train = motif.part("train")
    assert torch.bincount(train.y).tolist() == [5874, 6198, 5928]
    assert torch.bincount(train.environment).tolist() == [6009, 5927, 6064]
    assert train.environment.equal(train.extra["base"])
    assert (train.y == train.extra["motif"]).double().mean().item() == pytest.approx(0.9339, abs=5e-5)
    assert (motif.part("test").extra["base"] == 4).all()
    sums = torch.zeros(len(train), dtype=torch.long)
    owner = torch.arange(len(train)).repeat_interleave(train.node_counts)
    assert sums.index_add(0, owner, train.node_truth.long()).eq(5).all()
    owner = torch.arange(len(train)).repeat_interleave(train.edge_counts)
    true_edges = sums.index_add(0, owner, train.edge_truth.long())
    expected = torch.tensor([12, 10, 12])[train.extra["motif"]]
    assert true_edges.equal(expected)


@pytest.mark.parametrize(("part", "share"), [("train", 0.980), ("val", 0.546), ("test", 0.336)])
def test_concept_shift_ties_base_to_motif(cache, part, share):
    graphs = Motif().load("base", "concept", cache=cache).part(part)
    assert (graphs.extra["base"] == graphs.extra["motif"]).double().mean().item() == pytest.approx(share, abs=6e-4)


def test_another_seed_gives_other_graphs_of_the_same_law(motif):
    kind, other = next(iter(generate("base", 7)))
    assert kind == "none"
    assert fingerprint(other.part("val")) != fingerprint(next(iter(generate("base", 123)))[1].part("val"))
    assert other.graphs.node_counts.double().mean().item() == pytest.approx(16.38, abs=0.15)
    assert (other.graphs.y == other.graphs.extra["motif"]).double().mean().item() == pytest.approx(14 / 15, abs=0.006)


def test_unknown_shift():
    with pytest.raises(OutlandError, match=r"unknown domain of motif 'sise'\. Did you mean 'size'"):
        Motif().load("sise", "covariate")
    with pytest.raises(OutlandError, match="Valid: concept, covariate, none"):
        Motif().load("size", "subpopulation")
