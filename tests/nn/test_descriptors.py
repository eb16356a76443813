import dataclasses

import pytest
import torch

from outland.errors import OutlandError
from outland.graphs import PackedGraphs
from outland.nn import BackboneSettings, GraphNet, fit_descriptors
from tests.conftest import CHEMICAL, chemical_graphs, whole

SCHEMA = dataclasses.replace(CHEMICAL, descriptors=3)


def net(**options):
    torch.manual_seed(0)
    return GraphNet(BackboneSettings(width=8, layers=2, dropout=0.0, descriptors=True, **options), SCHEMA).eval()


def graphs(descriptors):
    packed = PackedGraphs.from_data_list(chemical_graphs())
    return dataclasses.replace(packed, extra={"descriptors": descriptors.expand(len(packed), 3)})


@pytest.mark.parametrize("layout", ["exact", "padded"])
@pytest.mark.parametrize("kind", ["gin", "dmpnn"])
def test_descriptors_are_standardized_clipped_and_added_to_the_readout(kind, layout):
    classifier = net(kind=kind)
    # mean 2 and standard deviation 1; a constant column; mean 100, standard deviation 50
    fit_descriptors(classifier, torch.tensor([[1.0, 7.0, 50.0], [3.0, 7.0, 150.0]]))
    batch = whole(graphs(torch.tensor([4.0, 8.0, 1e6])), layout)
    assert batch.descriptors is not None
    weight = classifier.descriptors.linear.weight
    plain = classifier.embed(batch.replace(descriptors=torch.full_like(batch.descriptors, torch.nan)))
    added = classifier.embed(batch) - plain
    assert torch.allclose(added, (weight @ torch.tensor([2.0, 0.0, 5.0])).expand_as(added), atol=1e-5)


def test_unknown_descriptors_count_as_average():
    classifier = net()
    fit_descriptors(classifier, torch.tensor([[1.0, 7.0, 50.0], [3.0, 7.0, 150.0]]))
    batch = whole(graphs(torch.full((3,), torch.nan)))
    average = whole(graphs(torch.tensor([2.0, 7.0, 100.0])))
    assert torch.allclose(classifier.embed(batch), classifier.embed(average), atol=1e-6)


def test_graphs_without_the_descriptors_it_reads_are_refused():
    classifier = net()
    batch = whole(graphs(torch.zeros(3)))
    with pytest.raises(
        OutlandError, match=r"reads 3 descriptors of each molecule, and these graphs have none: give it"
    ):
        classifier.embed(batch.replace(descriptors=None))
    with pytest.raises(OutlandError, match="and these graphs have 2"):
        classifier.embed(batch.replace(descriptors=batch.descriptors[:, :2]))


def test_statistics_are_in_the_state_dict_and_are_not_trained():
    classifier = net()
    fit_descriptors(classifier, torch.tensor([[1.0, 7.0, 50.0], [3.0, 7.0, 150.0]]))
    state = classifier.state_dict()
    assert state["descriptors.mean"].tolist() == [2.0, 7.0, 100.0]
    assert state["descriptors.scale"].tolist() == pytest.approx([1.0, 0.0, 0.02])
    assert "descriptors.mean" not in dict(classifier.named_parameters())


def test_without_descriptors_there_is_nothing_to_add():
    assert GraphNet(BackboneSettings(width=8, descriptors=True), CHEMICAL).descriptors is None
    assert GraphNet(BackboneSettings(width=8), SCHEMA).descriptors is None
