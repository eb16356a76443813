"""Weights on all messages of a method, from outside it."""

import pytest
import torch

from outland.graphs.induced import spanning_subgraphs
from outland.methods import METHODS, build_method, method_settings
from outland.nn import BackboneSettings, Mask
from outland.nn.weighted_messages import weighted_messages
from tests.conftest import whole

READ_EDGES = {"dir", "ciga", "gsat", "gala", "stablegnn"}  # in other ways than by messages


def build(name, schema, kind="gin"):
    torch.manual_seed(0)
    backbone = BackboneSettings(width=8, layers=3, kind=kind, heads=2)
    return build_method(name, schema, backbone, method_settings(name, {})).double().eval()


def batch_of(graphs, layout="exact"):
    batch = whole(graphs, layout)
    return batch.replace(x=batch.x.double()) if batch.x.is_floating_point() else batch


@pytest.mark.parametrize(
    ("name", "kind"),
    [*((name, "gin") for name in METHODS), *((n, k) for n in ("erm", "cal") for k in ("gcn", "gcnii", "gat", "dmpnn"))],
)
def test_weight_0_is_the_graph_without_the_edge(any_set, name, kind):
    schema, graphs = any_set
    method = build(name, schema, kind)
    partner = graphs.reverse.long() + graphs.edge_offsets.repeat_interleave(graphs.edge_counts)
    keep = torch.rand(len(partner), generator=torch.Generator().manual_seed(1)) > 0.5
    keep &= keep[partner]
    with torch.inference_mode():
        plain, removed = method(batch_of(graphs)), method(batch_of(spanning_subgraphs(graphs, keep)))
        with weighted_messages(method, keep.double()):
            weighted = method(batch_of(graphs))
        assert torch.equal(method(batch_of(graphs)), plain)  # the method is left as it was
    assert not torch.allclose(plain, removed, atol=1e-6)
    assert torch.allclose(weighted, removed, atol=1e-9) == (name not in READ_EDGES)


@pytest.mark.parametrize("layout", ["exact", "padded"])
def test_it_is_the_mask_of_a_plain_network_and_has_its_gradient(any_set, layout):
    schema, graphs = any_set
    method, batch = build("erm", schema), batch_of(graphs, layout)
    weight = torch.rand(batch.num_edges, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    gradients = []
    for by_mask in (True, False):
        edge = weight.clone().requires_grad_()
        if by_mask:
            logits = method.classifier(batch, Mask.on_edges(edge, batch))
        else:
            with weighted_messages(method, edge):
                logits = method(batch)
        logits[: len(graphs)].square().sum().backward()
        gradients.append((logits.detach(), edge.grad))
    for first, second in zip(*gradients, strict=True):
        assert torch.allclose(first, second, atol=1e-12)
    assert gradients[0][1].abs().max() > 1e-3


def test_it_multiplies_masks_of_the_method(any_set):
    """AIA's stable mask times the weight, in the generator and in the classifier."""
    schema, graphs = any_set
    method, batch = build("aia", schema), batch_of(graphs)
    weight = torch.rand(batch.num_edges, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    with torch.inference_mode():
        with weighted_messages(method, weight):
            logits = method(batch)
        generator, front = method.generator, method.front
        with weighted_messages(generator, weight):
            stable = generator(batch)
        mask = Mask(stable.node, stable.edge * weight)
        expected = method.classifier(
            batch, mask, front(batch, None, weight), method.classifier.encoder.edge_states(batch)
        )
    assert torch.allclose(logits, expected, atol=1e-12)
