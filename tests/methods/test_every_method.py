"""Every method on every family of data, two epochs on small cuts of real files."""

import dataclasses
import gzip

import numpy as np
import pytest
import torch

from outland.datasets.cmnist import CMNIST, PALETTE, read_idx
from outland.datasets.superpixels import superpixel_graphs
from outland.graphs import Cache, Splits
from outland.methods import METHODS, Progress, build_method, find_method, method_settings
from outland.nn import BackboneSettings
from outland.tables import TableSettings
from outland.tables.smiles_table import SmilesTable
from outland.training import Trainer, TrainSettings
from outland.training.mask_quality import mask_quality
from tests.cases import SMALL, doubled
from tests.conftest import SAMPLES, whole

TOX = ("NR-AR", "NR-AhR", "NR-ER", "SR-ARE", "SR-MMP", "SR-p53")


def coloured_digits() -> Splits:
    """Thirty real digits in CMNIST's covariate colours."""
    folder = SAMPLES / "mnist-sample"
    images, labels = (
        read_idx(next(folder.glob(f"train-{name}-*.gz")), shape)
        for name, shape in (("images", (100, 28, 28)), ("labels", (100,)))
    )
    grey = superpixel_graphs(np.asarray(images[:30]), np.asarray(labels[:30]), workers=1)
    environment = torch.arange(30) % 5
    x = grey.x * torch.tensor(PALETTE)[environment].repeat_interleave(75, dim=0)
    graphs = dataclasses.replace(grey, x=x, environment=environment)
    index = torch.arange(30)
    return Splits(graphs, {"train": index[:20], "val": index[20:25], "test": index[25:]}, CMNIST.schema)


@pytest.fixture(scope="module")
def families(cache, motif, tmp_path_factory) -> dict[str, Splits]:
    folder = Cache(tmp_path_factory.mktemp("cache"))
    bbbp = SmilesTable(TableSettings(str(SAMPLES / "bbbp.csv"), target="p_np"))
    tox21 = SmilesTable(TableSettings(str(SAMPLES / "tox21.csv"), target=TOX))
    return {
        "motif": motif.limit(48),
        "cmnist": coloured_digits(),
        "molbbbp": bbbp.load("scaffold", "covariate", cache=folder).limit(48),
        "tox21": tox21.load("scaffold", "covariate", cache=folder).limit(48),
    }


def test_the_sample_is_gzip():
    with gzip.open(next((SAMPLES / "mnist-sample").glob("train-images-*.gz"))) as stream:
        assert stream.read(4) == bytes([0, 0, 8, 3])


@pytest.mark.parametrize("family", ["motif", "cmnist", "molbbbp", "tox21"])
@pytest.mark.parametrize("name", [*METHODS, "ciga:v1", "stablegnn:hsic", "disc:released", "aia:paper"])
def test_two_epochs(families, family, name):
    splits = families[family].check()
    torch.manual_seed(0)
    method = build_method(name, splits.schema, BackboneSettings(width=8, layers=3), method_settings(name, {}))
    trainer = Trainer(method, splits, TrainSettings(epochs=2, batch_size=16), seed=0)
    trainer.fit()
    assert len(trainer.curves) == 2
    for row in trainer.curves:
        assert torch.tensor(list(row["loss"].values())).isfinite().all()
    quality = mask_quality(method, splits, 32)
    assert bool(quality) == (method.has_masks and family == "motif")
    for scores in quality.values():
        assert 0 <= scores["rocauc"] <= 1
        assert 0 <= scores["precision_at_k"] <= 1


def test_masking_methods_are_the_papers():
    explaining = {name for name in METHODS if find_method(name).has_masks}
    assert explaining >= {"dir", "cal", "gsat", "ciga", "disc", "grea", "aia"}
    assert explaining.isdisjoint({"erm", "irm", "vrex", "groupdro", "m-mixup", "flag"})


@pytest.mark.parametrize("pool", ["max", "softmax", "attention"])
@pytest.mark.parametrize("name", [*METHODS])
def test_every_readout_serves_every_method(any_set, name, pool):
    schema, graphs = any_set
    changes = {"readout": "backbone"} if name in ("grea", "prune", "evidence") else {}
    logits = {}
    for selected in (pool, "mean"):
        backbone = dataclasses.replace(SMALL, pool=selected, unit_readout=True)
        torch.manual_seed(0)
        method = build_method(name, schema, backbone, method_settings(name, changes)).double()
        for parameter_name, parameter in method.named_parameters():
            if parameter_name.endswith("readout.query"):  # at 0 attention is the mean
                torch.nn.init.ones_(parameter)
        method.prepare(graphs, torch.arange(len(graphs)), 0)
        exact, padded = (doubled(whole(graphs, layout)) for layout in ("exact", "padded"))
        for phase in method.phases():
            assert all(term.isfinite() for term in phase.loss(padded, Progress(epoch=9, epochs=10)).values())
        logits[selected] = method.eval()(exact)
        assert torch.allclose(method(padded)[: len(graphs)], logits[selected], atol=1e-9)
    assert not torch.allclose(*logits.values(), rtol=0, atol=1e-6)
