import gzip
import hashlib

import pytest
import torch

from outland.chem.descriptors import DESCRIPTOR_NAMES
from outland.datasets import find_dataset
from outland.errors import OutlandError


def averages(splits, part):
    graphs = splits.part(part)
    return (
        len(graphs),
        round(graphs.node_counts.double().mean().item(), 2),
        round(graphs.edge_counts.double().mean().item(), 2),
    )


def test_molbbbp_scaffold_is_ogbs_split_row_by_row(cache, data):
    splits = find_dataset("molbbbp").load("scaffold", "covariate", cache=cache, data=data).check()
    for ours, theirs in (("train", "train"), ("val", "valid"), ("test", "test")):
        with gzip.open(data.folder / f"ogb/ogbg_molbbbp/split/scaffold/{theirs}.csv.gz", "rt") as stream:
            assert splits[ours].tolist() == [int(line) for line in stream]
    assert averages(splits, "train") == (1631, 22.49, 48.43)
    assert averages(splits, "val") == (204, 33.20, 71.84)
    assert averages(splits, "test") == (204, 27.51, 59.75)
    assert [int(splits.part(part).y.sum()) for part in ("train", "val", "test")] == [1369, 83, 108]


def test_molbbbp_environments_are_whole_scaffolds(cache, data):
    splits = find_dataset("molbbbp").load("scaffold", "covariate", cache=cache, data=data)
    train = splits.part("train")
    assert splits.schema.environments == 10
    pairs = {(int(s), int(e)) for s, e in zip(train.extra["scaffold"], train.environment, strict=True)}
    assert len(pairs) == len({scaffold for scaffold, _ in pairs})
    assert torch.bincount(train.environment).min() > 100


def test_molbbbp_size_follows_the_seed(cache, data):
    molbbbp = find_dataset("molbbbp")
    splits = molbbbp.load("size", "covariate", cache=cache, data=data).check()
    assert averages(splits, "train") == (1633, 27.02, 58.71)
    assert averages(splits, "val") == (203, 12.05, 24.24)
    assert averages(splits, "test") == (203, 12.27, 24.90)
    small = torch.cat([splits["val"], splits["test"]])
    assert splits.graphs.node_counts[small].max() <= splits.graphs.node_counts[splits["train"]].min()
    other = molbbbp.load("size", "covariate", seed=133, cache=cache, data=data)
    assert other["val"].sort().values.tolist() != splits["val"].sort().values.tolist()
    assert torch.cat([other["val"], other["test"]]).sort().values.equal(small.sort().values)
    assert splits.schema.environments == 10


def test_molecules_may_have_their_descriptors(cache, data):
    molbbbp = find_dataset("molbbbp")
    splits = molbbbp.load_with_descriptors("scaffold", "covariate", cache=cache, data=data).check()
    plain = molbbbp.load("scaffold", "covariate", cache=cache, data=data)
    assert set(splits.graphs.extra) - set(plain.graphs.extra) == {"descriptors"}
    assert all(splits[part].equal(plain[part]) for part in plain.parts)
    assert splits.graphs.x.equal(plain.graphs.x)
    values = splits.graphs.extra["descriptors"]
    assert values.shape == (2039, len(DESCRIPTOR_NAMES))
    weight = values[:, DESCRIPTOR_NAMES.index("ExactMolWt")]
    assert weight[0].item() == pytest.approx(294.1261, abs=1e-3)
    with pytest.raises(OutlandError, match="the graphs of motif are no molecules and have no descriptors: leave out"):
        find_dataset("motif").load_with_descriptors("base", "covariate", cache=cache)


HIV = {
    "scaffold/covariate": {
        "train": (24682, 26.25, 56.68, 924),
        "id_val": (4112, 26.49, 57.17, 176),
        "id_test": (4112, 26.39, 56.96, 136),
        "val": (4113, 24.95, 54.53, 126),
        "test": (4108, 19.76, 40.58, 81),
    },
    "size/covariate": {
        "train": (26169, 27.87, 60.20, 992),
        "id_val": (4112, 27.79, 60.07, 173),
        "id_test": (4112, 27.88, 60.20, 159),
        "val": (2773, 15.55, 32.77, 56),
        "test": (3961, 12.09, 24.87, 63),
    },
}
SIZES = {
    "scaffold/concept": [15209, 3258, 3258, 9365, 10037],
    "size/concept": [14454, 3096, 3096, 9956, 10525],
    "scaffold/none": [24676, 8225, 8226],
    "size/none": [24676, 8225, 8226],
}
LISTS = {
    "scaffold": ("f099809bb63895c8", "5ff57e55fb73ec1a", "a87ee1c949edffd2"),
    "size": ("8ede0cd9095720f2", "b215be915f612e57", "d518ee2bd2803404"),
}


@pytest.mark.parametrize("domain_and_kind", [*HIV, *SIZES])
def test_molhiv(cache, data, domain_and_kind):
    domain, _, kind = domain_and_kind.partition("/")
    splits = find_dataset("molhiv").load(domain, kind, cache=cache, data=data).check()
    assert len(splits.graphs) == 41127
    assert int(splits.graphs.y.sum()) == 1443
    if domain_and_kind in SIZES:
        assert [len(index) for index in splits.parts.values()] == SIZES[domain_and_kind]
        assert splits.schema.environments == (3 if kind == "concept" else 10)
        return
    for part, (graphs, nodes, edges, positives) in HIV[domain_and_kind].items():
        assert averages(splits, part) == (graphs, nodes, edges)
        assert int(splits.part(part).y.sum()) == positives
    for part, digest in zip(("train", "val", "test"), LISTS[domain], strict=True):
        joined = ",".join(str(row) for row in splits[part].tolist())
        assert hashlib.sha256(joined.encode()).hexdigest()[:16] == digest
    assert splits.schema.environments == 10
    assert torch.bincount(splits.part("train").environment).min() > 1000


def test_molhiv_concept_reverses_the_tie_of_label_and_domain(cache, data):
    """Large molecules prefer one label in training and the other in test."""
    splits = find_dataset("molhiv").load("size", "concept", cache=cache, data=data)
    gaps = {}
    for part in ("train", "test"):
        graphs = splits.part(part)
        positive = graphs.y[:, 0] == 1
        sizes = graphs.node_counts.double()
        gaps[part] = (sizes[positive].mean() - sizes[~positive].mean()).item()
    assert gaps["train"] == pytest.approx(-1.66, abs=0.01)
    assert gaps["test"] > 1


def test_molhiv_has_one_seed():
    with pytest.raises(OutlandError, match="frozen as published, with seed 123"):
        find_dataset("molhiv").load("size", "covariate", seed=7)
